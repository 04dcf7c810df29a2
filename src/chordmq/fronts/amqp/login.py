"""Lets AMQP clients in: PLAIN, AMQPLAIN and EXTERNAL, judged by the node's authenticator."""

from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.principal import ANONYMOUS, Login, Principal
from chordmq.codecs.amqp.tables import read_table
from chordmq.errors import AuthenticationFailed, DecodeError
from chordmq.fronts.amqp.errors import Fault
from chordmq.fronts.plain import PROTOCOL, check_plain, is_token, read_plain

MECHANISMS = "PLAIN AMQPLAIN EXTERNAL ANONYMOUS"


async def log_in(
    authenticator: Authenticator | None,
    mechanism: str,
    response: bytes,
    host: str,
    certified: Principal,
) -> Login:
    """Return who the client is; raise AuthenticationFailed if it does not prove it."""
    if mechanism == "EXTERNAL":
        if certified is ANONYMOUS:
            raise AuthenticationFailed("EXTERNAL needs a certificate that names a user")
        return Login(certified)
    if mechanism == "ANONYMOUS":
        if authenticator is not None and authenticator.is_required:
            raise AuthenticationFailed("everybody has to log in")
        return Login(certified)
    if mechanism not in ("PLAIN", "AMQPLAIN"):
        raise Fault(503, f"the mechanisms are {MECHANISMS}")
    name, password = read_plain(response) if mechanism == "PLAIN" else _amqplain(response)
    return await check_plain(authenticator, name, password, host)


async def renew(
    authenticator: Authenticator | None, secret: str, host: str, principal: Principal
) -> Login:
    """Return the login that a new token stands for; it must be of the user who is logged in."""
    if authenticator is None or not is_token(authenticator, secret):
        raise AuthenticationFailed("only a token can be renewed, by another of the same issuer")
    login = await authenticator.check_token(secret, host, PROTOCOL)
    if login.principal.name != principal.name:
        raise AuthenticationFailed("the token is another user's")
    return login


def _amqplain(response: bytes) -> tuple[str, str]:
    try:
        table = read_table(response)
    except DecodeError:
        raise AuthenticationFailed("the response is not that of AMQPLAIN") from None
    name, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(name, str) or not isinstance(password, str):
        raise AuthenticationFailed("AMQPLAIN needs LOGIN and PASSWORD")
    return name, password
