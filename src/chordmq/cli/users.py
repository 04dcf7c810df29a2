"""Adds, lists and deletes users, sets passwords, makes and revokes tokens."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from chordmq.cli.exits import EXIT_REFUSED, EXIT_USAGE
from chordmq.cli.http import DEFAULT_URL, Url, call
from chordmq.cli.identity import ask_password
from chordmq.cli.options import Json
from chordmq.cli.output import fail, say, show_json, show_table

if TYPE_CHECKING:
    from chordmq.broker.security.users import Users
    from chordmq.cluster.image import Image

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Add, list and delete users; set passwords; make and revoke tokens.

    \b
      chordmq users add admin --admin --data-dir data    the first one, while the node is stopped
      chordmq --user admin users add alice               asks for both passwords
      chordmq --user admin users token add alice --label "sensor 7"
      chordmq --user admin users list

    Commands ask a running node over HTTP. With --data-dir they change the data directory of a node
    that is stopped, or the etcd of a cluster: whoever may write there needs no password.
    """,
)
tokens = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make and revoke tokens.")
app.add_typer(tokens, name="token")

Name = Annotated[str, typer.Argument(metavar="USER", help="The user.")]
DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIRECTORY",
        help="Change the data of a node that is stopped; or name the etcd of a cluster, "
        "http://host:2379[,...][#cluster.name].",
    ),
]
NewPassword = Annotated[
    str | None,
    typer.Option(
        "--new-password",
        metavar="TEXT",
        envvar="CHORDMQ_NEW_PASSWORD",
        show_envvar=False,
        help="The user's password; asked for unless given. Or set CHORDMQ_NEW_PASSWORD.",
    ),
]


@app.command("add")
def add(
    name: Name,
    admin: Annotated[bool, typer.Option("--admin", help="May do everything.")] = False,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="Let the user in by tokens only.")
    ] = False,
    new_password: NewPassword = None,
    data_dir: DataDir = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Add a user.

    \b
      chordmq users add admin --admin --data-dir data
      chordmq --user admin users add alice
    """
    password = None if no_password else _new_password(name, new_password)
    if data_dir is not None:
        offline(data_dir, lambda users: users.add(name, password, is_admin=admin))
    else:
        body = {"name": name, "admin": admin} | ({} if password is None else {"password": password})
        call(url, "POST", "/v1/users", body, as_json=as_json)
    say(f"added {name}")


@app.command("list")
def list_users(data_dir: DataDir = None, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List users and how they can log in.

    \b
      chordmq users list
    """
    if data_dir is not None:
        rows = offline(data_dir, _listed)
    else:
        rows = call(url, "GET", "/v1/users", as_json=as_json)["users"]
    if as_json:
        show_json(rows)
        return
    show_table(
        ["USER", "ADMIN", "MECHANISMS", "#TOKENS"],
        [(row["name"], row["admin"], ", ".join(row["mechanisms"]), row["tokens"]) for row in rows],
    )


@app.command("delete")
def delete(
    name: Name, data_dir: DataDir = None, url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """Delete a user and its tokens.

    \b
      chordmq users delete alice
    """
    if data_dir is not None:
        offline(data_dir, lambda users: users.remove(name))
    else:
        call(url, "DELETE", f"/v1/users/{quote(name, safe='')}", as_json=as_json)
    say(f"deleted {name}")


@app.command("password")
def password(
    name: Name,
    new_password: NewPassword = None,
    data_dir: DataDir = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Set a user's password; a user may set its own.

    \b
      chordmq users password alice
    """
    text = _new_password(name, new_password)
    if data_dir is not None:
        offline(data_dir, lambda users: users.set_password(name, text))
    else:
        path = f"/v1/users/{quote(name, safe='')}/password"
        call(url, "PUT", path, {"password": text}, as_json=as_json)
    say(f"changed the password of {name}")


@tokens.command("add")
def add_token(
    name: Name,
    label: Annotated[str, typer.Option("--label", help="What the token is for.")] = "",
    lifetime_s: Annotated[
        int | None, typer.Option("--lifetime-s", min=1, help="Seconds until it ends.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Make a token and print it, this once; programs use it in place of the user's password.

    \b
      chordmq users token add alice --label 'sensor 7'
    """
    body = {"label": label} | ({} if lifetime_s is None else {"lifetime_s": lifetime_s})
    made = call(url, "POST", f"/v1/users/{quote(name, safe='')}/tokens", body, as_json=as_json)
    if as_json:
        show_json(made)
    else:
        print(made["token"])


@tokens.command("list")
def list_tokens(name: Name, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List a user's tokens, without what they are.

    \b
      chordmq users token list alice
    """
    found = call(url, "GET", f"/v1/users/{quote(name, safe='')}/tokens", as_json=as_json)["tokens"]
    if as_json:
        show_json(found)
        return
    show_table(
        ["ID", "LABEL", "CREATED", "ENDS"],
        [(t["id"], t["label"], _time(t["created_ms"]), _time(t["expires_ms"])) for t in found],
    )


@tokens.command("revoke")
def revoke_token(
    name: Name,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `token list` shows it.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Revoke a token; it lets nobody in from now on.

    \b
      chordmq users token revoke alice 3f9a
    """
    path = f"/v1/users/{quote(name, safe='')}/tokens/{quote(token_id, safe='')}"
    call(url, "DELETE", path, as_json=as_json)
    say(f"revoked {token_id}")


def offline(place: str, work: Callable[["Users"], Awaitable[Any]]) -> Any:
    """Work on the users where they are kept, or end the command with the reason."""
    import asyncio

    from chordmq.broker.security.users import Users
    from chordmq.clock import SystemClock
    from chordmq.errors import CannotStart, ChordMQError

    async def run() -> Any:
        clock = SystemClock()
        opening = of_cluster(place) if place.startswith(("http:", "https:")) else of_node(place)
        async with opening as image:
            return await work(Users(image, clock))

    try:
        return asyncio.run(run())
    except CannotStart as error:
        fail(f"{error} Or leave --data-dir out, to ask the running node.", EXIT_REFUSED)
    except ChordMQError as error:
        fail(str(error), EXIT_REFUSED)


async def _listed(users: "Users") -> list[dict[str, Any]]:
    return [
        {
            "name": user.name,
            "admin": user.is_admin,
            "mechanisms": sorted(user.credentials),
            "tokens": len(users.tokens(user.name)),
        }
        for user in users
    ]


def _new_password(name: str, given: str | None) -> str:
    text = given or ask_password(f"New password of {name}: ")
    if not text:
        fail("the password is empty", EXIT_USAGE)
    return text


def _time(ms: int | None) -> str | None:
    return (
        None if ms is None else datetime.fromtimestamp(ms / 1000, tz=UTC).isoformat("T", "seconds")
    )


@asynccontextmanager
async def of_node(directory: str) -> "AsyncIterator[Image]":
    """Give the store of a node that is stopped."""
    from chordmq.clock import SystemClock
    from chordmq.cluster.image import Image
    from chordmq.storage.lock import DirectoryLock
    from chordmq.storage.metadata.database import Database

    lock = DirectoryLock(Path(directory))
    try:
        database = Database(Path(directory) / "meta.db")
        try:
            yield Image.local(database, SystemClock())
        finally:
            database.close()
    finally:
        lock.release()


@asynccontextmanager
async def of_cluster(place: str) -> "AsyncIterator[Image]":
    """Give the store of a cluster, whose nodes may be running."""
    from chordmq.cluster.image import Image
    from chordmq.cluster.settings import ClusterSettings

    endpoints, _, name = place.partition("#")
    settings = ClusterSettings(store="etcd", endpoints=endpoints, name=name or "chordmq")
    settings.check()
    store = settings.open()
    try:
        yield await Image.load(store)
    finally:
        await store.close()
