"""RabbitMQ's management HTTP API, as far as its tools call it: `/api/...` beside our own `/v1`."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chordmq.broker.broker import Broker
from chordmq.broker.queues.exchanges import PREDECLARED, Binding
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.broker.security.acl import Kind, Operation
from chordmq.errors import ChordMQError, Elsewhere
from chordmq.fronts.admin.api import as_json
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.errors import status_of
from chordmq.fronts.admin.forwarding import carried
from chordmq.fronts.admin.login import authenticator_of, check_super
from chordmq.fronts.admin.management import changes, views
from chordmq.fronts.admin.management.changes import body_of

PREFIX = "/api/"
KINDS = {"q": True, "e": False}
"""What a binding leads to, in a path: a queue or an exchange."""


class Asked:
    """One request: who asks, and the parts of its path that are names."""

    def __init__(self, call: Call, names: list[str]) -> None:
        self.call = call
        self.names = names

    def vhost(self, number: int = 0) -> VirtualHost:
        """Return the virtual host that a part of the path names."""
        found = self.call.broker.queues.vhost(self.names[number])
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"no virtual host {self.names[number]!r}")
        return found

    def vhosts(self) -> list[VirtualHost]:
        """Return the virtual host in the path, or all if there is none."""
        if self.names:
            return [self.vhost()]
        return list(self.call.broker.queues.vhosts.values())

    def flag(self, name: str) -> bool:
        """Return whether the query says that something is so."""
        return self.call.request.query_params.get(name) == "true"


Answer = Callable[[Asked], Awaitable[Any]]


async def overview(asked: Asked) -> Any:
    """Show the numbers of the node."""
    return views.overview(asked.call)


async def list_nodes(asked: Asked) -> Any:
    """Show the node."""
    return views.nodes(asked.call)


async def list_vhosts(asked: Asked) -> Any:
    """Show the virtual hosts."""
    return [views.vhost_row(one) for one in asked.call.broker.queues.vhosts.values()]


async def show_vhost(asked: Asked) -> Any:
    """Show one virtual host."""
    return views.vhost_row(asked.vhost())


async def list_queues(asked: Asked) -> Any:
    """Show queues."""
    return [
        views.queue_row(asked.call, queue)
        for vhost in asked.vhosts()
        for queue in vhost.queues.values()
    ]


async def show_queue(asked: Asked) -> Any:
    """Show one queue."""
    return views.queue_row(asked.call, asked.vhost().queue(asked.names[1]))


async def list_exchanges(asked: Asked) -> Any:
    """Show exchanges."""
    return views.exchanges(asked.call, asked.vhosts())


async def show_exchange(asked: Asked) -> Any:
    """Show one exchange."""
    vhost = asked.vhost()
    return views.exchange_row(vhost.name, vhost.exchange(asked.names[1]))


async def list_bindings(asked: Asked) -> Any:
    """Show bindings."""
    return [
        views.binding_row(vhost.name, one)
        for vhost in asked.vhosts()
        for one in views.bindings(vhost)
    ]


async def list_queue_bindings(asked: Asked) -> Any:
    """Show the bindings of a queue."""
    vhost = asked.vhost()
    name = vhost.queue(asked.names[1]).name
    found = [one for one in views.bindings(vhost) if one.to_queue and one.destination == name]
    return [views.binding_row(vhost.name, one) for one in found]


async def list_between(asked: Asked) -> Any:
    """Show the bindings between two ends."""
    vhost, (source, destination, to_queue) = asked.vhost(), _ends(asked)
    wanted = (source, destination, to_queue)
    return [
        views.binding_row(vhost.name, one)
        for one in views.bindings(vhost)
        if (one.source, one.destination, one.to_queue) == wanted
    ]


async def list_connections(asked: Asked) -> Any:
    """Show who is connected."""
    return views.connections(asked.call)


async def list_channels(asked: Asked) -> Any:
    """Show channels."""
    return views.channels(asked.call)


async def list_consumers(asked: Asked) -> Any:
    """Show who consumes."""
    return views.consumers(asked.vhosts())


async def list_users(asked: Asked) -> Any:
    """Show users."""
    return views.users(asked.call)


async def list_permissions(asked: Asked) -> Any:
    """Show what users may do."""
    return views.permissions(asked.call)


async def whoami(asked: Asked) -> Any:
    """Show who asks."""
    return views.whoami(asked.call)


async def list_policies(asked: Asked) -> Any:
    """Show policies and parameters, of which there are none."""
    return []


async def is_alive(asked: Asked) -> Any:
    """Send a message through a queue."""
    return await changes.is_alive(asked.call, asked.vhost())


async def declare_vhost(asked: Asked) -> Any:
    """See that a virtual host is there; they are made by a setting."""
    if asked.call.broker.queues.vhost(asked.names[0]) is None:
        text = "the setting amqp.virtual_hosts lists the virtual hosts"
        raise HTTPException(HTTPStatus.BAD_REQUEST, text)


async def put_user(asked: Asked) -> Any:
    """Add a user, or change password and tags."""
    check_super(asked.call.request)
    body = await body_of(asked.call, changes.UserBody)
    await changes.put_user(authenticator_of(asked.call.request).users, asked.names[0], body)
    return HTTPStatus.CREATED


async def delete_user(asked: Asked) -> Any:
    """Remove a user."""
    check_super(asked.call.request)
    await authenticator_of(asked.call.request).users.remove(asked.names[0])


async def declare_queue(asked: Asked) -> Any:
    """Make a queue."""
    body = await body_of(asked.call, changes.QueueBody)
    await changes.declare_queue(asked.call, asked.vhost(), asked.names[1], body)
    return HTTPStatus.CREATED


async def delete_queue(asked: Asked) -> Any:
    """Remove a queue."""
    if_unused, if_empty = asked.flag("if-unused"), asked.flag("if-empty")
    await changes.delete_queue(
        asked.call, asked.vhost(), asked.names[1], if_unused=if_unused, if_empty=if_empty
    )


async def purge_queue(asked: Asked) -> Any:
    """Take all that waits as done."""
    changes.purge(asked.call, asked.vhost(), asked.names[1])


async def get_messages(asked: Asked) -> Any:
    """Give messages of a queue."""
    body = await body_of(asked.call, changes.GetBody)
    return await changes.get(asked.call, asked.vhost(), asked.names[1], body)


async def declare_exchange(asked: Asked) -> Any:
    """Make an exchange."""
    body = await body_of(asked.call, changes.ExchangeBody)
    await changes.declare_exchange(asked.call, asked.vhost(), asked.names[1], body)
    return HTTPStatus.CREATED


async def delete_exchange(asked: Asked) -> Any:
    """Remove an exchange."""
    if_unused = asked.flag("if-unused")
    await changes.delete_exchange(asked.call, asked.vhost(), asked.names[1], if_unused=if_unused)


async def publish(asked: Asked) -> Any:
    """Publish a message."""
    body = await body_of(asked.call, changes.PublishBody)
    return await changes.publish(asked.call, asked.vhost(), asked.names[1], body)


async def bind(asked: Asked) -> Any:
    """Make a binding."""
    body = await body_of(asked.call, changes.BindingBody)
    source, destination, to_queue = _ends(asked)
    wanted = Binding(
        source=source,
        destination=destination,
        to_queue=to_queue,
        key=body.routing_key,
        arguments=body.arguments,
    )
    row = await changes.bind(asked.call, asked.vhost(), wanted)
    place = f"{asked.call.request.url.path}/{row['properties_key']}"
    return Response(status_code=HTTPStatus.CREATED, headers={"location": place})


async def unbind(asked: Asked) -> Any:
    """End a binding."""
    await changes.unbind(asked.call, asked.vhost(), _ends(asked), asked.names[4])


def _ends(asked: Asked) -> tuple[str, str, bool]:
    source, kind, destination = asked.names[1:4]
    if kind not in KINDS:
        raise HTTPException(HTTPStatus.NOT_FOUND, "a binding leads to q (queue) or e (exchange)")
    return source, destination, KINDS[kind]


async def export(asked: Asked) -> Any:
    """Show everything that was declared to last."""
    call = asked.call
    queues = [one.facts for one in call.broker.queues if one.facts.durable]
    vhosts = asked.vhosts()
    return {
        "rabbit_version": views.API_VERSION,
        "vhosts": [{"name": vhost.name} for vhost in vhosts],
        "users": views.users(call),
        "permissions": views.permissions(call),
        "queues": [
            {
                "name": one.name,
                "vhost": one.vhost,
                "durable": True,
                "auto_delete": one.auto_delete,
                "arguments": one.arguments,
            }
            for one in queues
            if not one.exclusive
        ],
        "exchanges": [
            views.exchange_row(vhost.name, one)
            for vhost in vhosts
            for one in vhost.exchanges
            if one.durable and one.name not in PREDECLARED
        ],
        "bindings": [
            views.binding_row(vhost.name, one)
            for vhost in vhosts
            for one in vhost.exchanges.bindings()
        ],
    }


async def load(asked: Asked) -> Any:
    """Declare everything that a file of definitions names."""
    body = await body_of(asked.call, changes.Definitions)
    await changes.load(asked.call, asked.call.broker.queues.vhosts, body)


TABLE: dict[tuple[str, str], Answer] = {
    ("GET", "overview"): overview,
    ("GET", "nodes"): list_nodes,
    ("GET", "vhosts"): list_vhosts,
    ("GET", "vhosts/*"): show_vhost,
    ("PUT", "vhosts/*"): declare_vhost,
    ("GET", "queues"): list_queues,
    ("GET", "queues/*"): list_queues,
    ("GET", "queues/*/*"): show_queue,
    ("PUT", "queues/*/*"): declare_queue,
    ("DELETE", "queues/*/*"): delete_queue,
    ("GET", "queues/*/*/bindings"): list_queue_bindings,
    ("DELETE", "queues/*/*/contents"): purge_queue,
    ("POST", "queues/*/*/get"): get_messages,
    ("GET", "exchanges"): list_exchanges,
    ("GET", "exchanges/*"): list_exchanges,
    ("GET", "exchanges/*/*"): show_exchange,
    ("PUT", "exchanges/*/*"): declare_exchange,
    ("DELETE", "exchanges/*/*"): delete_exchange,
    ("POST", "exchanges/*/*/publish"): publish,
    ("GET", "bindings"): list_bindings,
    ("GET", "bindings/*"): list_bindings,
    ("GET", "bindings/*/e/*/*/*"): list_between,
    ("POST", "bindings/*/e/*/*/*"): bind,
    ("DELETE", "bindings/*/e/*/*/*/*"): unbind,
    ("GET", "connections"): list_connections,
    ("GET", "channels"): list_channels,
    ("GET", "consumers"): list_consumers,
    ("GET", "consumers/*"): list_consumers,
    ("GET", "users"): list_users,
    ("PUT", "users/*"): put_user,
    ("DELETE", "users/*"): delete_user,
    ("GET", "permissions"): list_permissions,
    ("GET", "whoami"): whoami,
    ("GET", "policies"): list_policies,
    ("GET", "parameters"): list_policies,
    ("GET", "definitions"): export,
    ("POST", "definitions"): load,
    ("GET", "aliveness-test/*"): is_alive,
}
"""Each path with `*` for names; a virtual host comes first, where there is one."""
OPEN = (whoami, is_alive)
"""What does not show the whole node, so that one need not be allowed to see it."""


def parts(scope: dict[str, Any]) -> list[str]:
    """Return the parts of a path, in which a slash that belongs to a name is written %2F."""
    raw = scope.get("raw_path")
    if raw is not None:
        return [unquote(one) for one in raw.decode("ascii", "replace").split("/")[2:]]
    # Another node has carried the request here after the path was read: an empty part and
    # another stand for the virtual host `/`.
    found: list[str] = []
    for part in scope["path"].removeprefix(PREFIX).split("/"):
        if not part and found and not found[-1]:
            found[-1] = "/"
        else:
            found.append(part)
    return found


def find(method: str, path: list[str]) -> tuple[Answer, list[str]]:
    """Return who answers, and the names in the path; raise HTTPException if nobody does."""
    known = False
    for (wanted_method, pattern), answer in TABLE.items():
        wanted = pattern.split("/")
        if len(wanted) == len(path) and all(
            one in ("*", part) for one, part in zip(wanted, path, strict=True)
        ):
            if wanted_method == method:
                return answer, [part for one, part in zip(wanted, path, strict=True) if one == "*"]
            known = True
    if known:
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not there for this")
    raise HTTPException(HTTPStatus.NOT_FOUND, "this part of RabbitMQ's API is not there")


async def serve(request: Request) -> Response:
    """Answer one request of a RabbitMQ tool, errors in the form that these understand."""
    try:
        return await _answer(request)
    except HTTPException as refusal:
        status = HTTPStatus(refusal.status_code)
        return _refusal(status, refusal.detail)
    except ChordMQError as error:
        status = status_of(error)
        if status is HTTPStatus.FORBIDDEN:
            status = HTTPStatus.UNAUTHORIZED
        elif status is HTTPStatus.CONFLICT:
            status = HTTPStatus.BAD_REQUEST
        return _refusal(status, str(error))


def _refusal(status: HTTPStatus, reason: str) -> Response:
    return as_json({"error": status.phrase.lower().replace(" ", "_"), "reason": reason}, status)


async def _answer(request: Request) -> Response:
    answer, names = find(request.method, parts(dict(request.scope)))
    call = Call(request)
    try:
        await _served(call.broker)
        if request.method == "GET" and answer not in OPEN:
            call.check(Operation.DESCRIBE, Kind.CLUSTER)
        found = await answer(Asked(call, names))
    except Elsewhere as elsewhere:
        response = await carried(call, elsewhere.node)
        if response is None:
            raise
        return response
    finally:
        call.release()
    if isinstance(found, Response):
        return found
    if found is None or isinstance(found, HTTPStatus):
        return Response(status_code=found or HTTPStatus.NO_CONTENT)
    return as_json(found)


async def _served(broker: Broker) -> None:
    """Wait for queues that are loaded with their first client, or say who looks after them."""
    queues = broker.queues
    if broker.topics.is_alone:
        await queues.loaded.wait()
    queues.check()


METHODS = ["GET", "PUT", "POST", "DELETE"]
ROUTES = [Route(PREFIX + "{rest:path}", serve, methods=METHODS, include_in_schema=False)]
"""Not in the description of our own API, as it is RabbitMQ's."""
