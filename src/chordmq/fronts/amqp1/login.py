"""Lets AMQP 1.0 clients in: the SASL mechanisms of the node, EXTERNAL and ANONYMOUS."""

from collections.abc import Awaitable, Callable

from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.principal import ANONYMOUS, Login, Principal
from chordmq.codecs.amqp1.composites import SaslInit
from chordmq.errors import AuthenticationFailed
from chordmq.fronts.plain import check_plain, read_plain

PLAIN, EXTERNAL, NOBODY = "PLAIN", "EXTERNAL", "ANONYMOUS"

Ask = Callable[[bytes], Awaitable[bytes]]
"""Sends a challenge, and returns the client's response."""


def mechanisms(authenticator: Authenticator | None, certified: Principal) -> tuple[str, ...]:
    """Return the ways in which a client may log in."""
    offered: list[str] = []
    if certified is not ANONYMOUS:
        offered.append(EXTERNAL)
    if authenticator is None or not authenticator.is_on:
        return (*offered, PLAIN, NOBODY)
    offered += authenticator.mechanisms
    if not authenticator.is_required:
        offered.append(NOBODY)
    return tuple(offered)


async def log_in(
    authenticator: Authenticator | None, init: SaslInit, host: str, certified: Principal, ask: Ask
) -> tuple[Login, bytes]:
    """Return who the client is, and the last word to it; raise AuthenticationFailed."""
    mechanism, response = init.mechanism, init.initial_response
    if mechanism not in mechanisms(authenticator, certified):
        raise AuthenticationFailed(f"{mechanism[:40]} is not offered")
    if mechanism in (EXTERNAL, NOBODY):
        return Login(certified), b""
    if response is None:
        response = await ask(b"")
    if mechanism == PLAIN:
        name, password = read_plain(response)
        return await check_plain(authenticator, name, password, host), b""
    assert authenticator is not None
    exchange = authenticator.begin(mechanism, host)
    while True:
        step = await exchange.step(response)
        if step.login is not None:
            return step.login, step.reply
        response = await ask(step.reply)
