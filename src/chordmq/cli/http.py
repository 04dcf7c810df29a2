"""Calls a node over HTTP, as the user whom the command line names."""

import base64
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordmq.cli.exits import EXIT_CANNOT_CONNECT, EXIT_REFUSED
from chordmq.cli.identity import security
from chordmq.cli.output import fail

if TYPE_CHECKING:
    import ssl
    import urllib.error
    import urllib.request
    from email.message import Message

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 30.0
BUSY_S, BUSY_LOOK_S = 15.0, 0.2
"""How long a node that has just started may say that it is not ready, and how often it is asked."""

Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="CHORDMQ_URL",
        show_envvar=False,
        help="HTTP address of the node. Or set CHORDMQ_URL.",
    ),
]
Body = dict[str, Any]


def call(url: str, method: str, path: str, body: Body | None = None, **output: bool) -> Body:
    """Return the answer of the node, or of one it names, or end the command with its reason."""
    text = _asked(url, method, path, body, **output)
    return dict(json.loads(text)) if text else {}


def fetch(url: str, path: str, **output: bool) -> str:
    """Return a page that is not JSON."""
    return _asked(url, "GET", path, None, **output).decode()


def _asked(url: str, method: str, path: str, body: Body | None, **output: bool) -> bytes:
    """Ask; a node that is still reading what it needs for the answer is asked again."""
    import http.client
    import urllib.error

    request, context = _prepared(url, method, path, body)
    try:
        return _sent(request, context)
    except urllib.error.HTTPError as error:
        place = error.headers.get("Location", "")
        if error.code == http.HTTPStatus.TEMPORARY_REDIRECT and not place.startswith(url):
            return _asked(place.removesuffix(path), method, path, body, **output)
        fail(_reason(error), EXIT_REFUSED, **output)
    except (OSError, http.client.HTTPException) as error:
        fail(f"cannot reach {url}: {_fault(error)}", EXIT_CANNOT_CONNECT, **output)


def open_url(url: str, path: str, timeout_s: float) -> "tuple[Message, bytes]":
    """Return the headers and the body of an answer, or raise OSError."""
    import urllib.request

    request, context = _prepared(url, "GET", path, None)
    with urllib.request.urlopen(  # noqa: S310 (the user names the address)
        request, timeout=timeout_s, context=context
    ) as answer:
        return answer.headers, answer.read()


def _prepared(
    url: str, method: str, path: str, body: Body | None
) -> "tuple[urllib.request.Request, ssl.SSLContext | None]":
    """Return a request that says who asks, and whom it trusts."""
    import urllib.request

    who = security()
    request = urllib.request.Request(  # noqa: S310 (the user names the address)
        url.rstrip("/") + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    if who.user:
        pair = base64.b64encode(f"{who.user}:{who.password}".encode()).decode()
        request.add_header("Authorization", f"Basic {pair}")
    elif who.token:
        request.add_header("Authorization", f"Bearer {who.token}")
    return request, who.context()


def _sent(request: "urllib.request.Request", context: "ssl.SSLContext | None") -> bytes:
    """Return the body of the answer, asking again while the node is busy."""
    import time
    import urllib.error
    import urllib.request
    from http import HTTPStatus

    deadline_s = time.monotonic() + BUSY_S
    while True:
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=TIMEOUT_S, context=context
            ) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline_s:
                raise
        time.sleep(BUSY_LOOK_S)


def _reason(error: "urllib.error.HTTPError") -> str:
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"


def _fault(error: Exception) -> str:
    import ssl

    cause = getattr(error, "reason", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    return str(cause)
