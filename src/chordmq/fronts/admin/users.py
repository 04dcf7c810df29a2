"""Users and their tokens over HTTP."""

from http import HTTPStatus
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chordmq.broker.security.accounts import TokenRow, UserRow
from chordmq.broker.security.users import Users
from chordmq.errors import InvalidRequest
from chordmq.fronts.admin.bodies import read_object
from chordmq.fronts.admin.login import authenticator_of, check_super

T = TypeVar("T")


async def list_users(request: Request) -> Response:
    """Name the users, how they can log in, and who is an administrator."""
    users = _administered(request)
    return JSONResponse({"users": [_user(users, user) for user in users]})


async def add_user(request: Request) -> Response:
    """Add a user: `{"name": "alice", "password": "...", "admin": false}`."""
    users = _administered(request)
    body = await read_object(request)
    name = _field(body, "name", str, None)
    if name is None:
        raise InvalidRequest("name is missing")
    password = _field(body, "password", str, None)
    await users.add(name, password, is_admin=_field(body, "admin", bool, False))
    return JSONResponse(_user(users, users.get(name)), HTTPStatus.CREATED)


async def show_user(request: Request) -> Response:
    """Show one user, to administrators and to itself."""
    users, name = _own(request)
    return JSONResponse(_user(users, users.get(name)))


async def change_user(request: Request) -> Response:
    """Make a user an administrator or no longer one: `{"admin": true}`."""
    users = _administered(request)
    name = request.path_params["name"]
    body = await read_object(request)
    await users.set_admin(name, _field(body, "admin", bool, users.get(name).is_admin))
    return JSONResponse(_user(users, users.get(name)))


async def remove_user(request: Request) -> Response:
    """Delete a user and its tokens."""
    await _administered(request).remove(request.path_params["name"])
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def set_password(request: Request) -> Response:
    """Replace a password, by an administrator or by the user itself: `{"password": "..."}`."""
    users, name = _own(request)
    password = _field(await read_object(request), "password", str, "")
    await users.set_password(name, password)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def list_tokens(request: Request) -> Response:
    """List a user's tokens, without what they are."""
    users, name = _own(request)
    users.get(name)
    return JSONResponse({"tokens": [_token(token) for token in users.tokens(name)]})


async def add_token(request: Request) -> Response:
    """Make a token: `{"label": "sensor 7", "lifetime_s": 86400}`; its text is shown only here."""
    users, name = _own(request)
    body = await read_object(request)
    lifetime_s = _field(body, "lifetime_s", int, None)
    if lifetime_s is not None and lifetime_s <= 0:
        raise InvalidRequest("lifetime_s must be positive")
    token, text = await users.add_token(
        name,
        label=_field(body, "label", str, ""),
        lifetime_ms=None if lifetime_s is None else lifetime_s * 1000,
    )
    return JSONResponse(_token(token) | {"token": text}, HTTPStatus.CREATED)


async def remove_token(request: Request) -> Response:
    """Revoke a token."""
    users, name = _own(request)
    await users.remove_token(name, request.path_params["id"])
    return Response(status_code=HTTPStatus.NO_CONTENT)


ROUTES = [
    Route("/v1/users", list_users),
    Route("/v1/users", add_user, methods=["POST"]),
    Route("/v1/users/{name}", show_user),
    Route("/v1/users/{name}", change_user, methods=["PATCH"]),
    Route("/v1/users/{name}", remove_user, methods=["DELETE"]),
    Route("/v1/users/{name}/password", set_password, methods=["PUT"]),
    Route("/v1/users/{name}/tokens", list_tokens),
    Route("/v1/users/{name}/tokens", add_token, methods=["POST"]),
    Route("/v1/users/{name}/tokens/{id}", remove_token, methods=["DELETE"]),
]


def _administered(request: Request) -> Users:
    check_super(request)
    return authenticator_of(request).users


def _own(request: Request) -> tuple[Users, str]:
    """Return the users and the name in the path, if that user or an administrator asks."""
    name: str = request.path_params["name"]
    check_super(request, or_name=name)
    return authenticator_of(request).users, name


def _user(users: Users, user: UserRow) -> dict[str, Any]:
    return {
        "name": user.name,
        "admin": user.is_admin,
        "mechanisms": sorted(user.credentials),
        "tokens": len(users.tokens(user.name)),
    }


def _token(token: TokenRow) -> dict[str, Any]:
    return {
        "id": token.id,
        "label": token.label,
        "created_ms": token.created_ms,
        "expires_ms": token.expires_ms,
    }


def _field(body: dict[str, Any], name: str, kind: type[T], default: Any) -> Any:
    value = body.get(name, default)
    if value is not default and type(value) is not kind:
        raise InvalidRequest(f"{name} is not a {kind.__name__}")
    return value
