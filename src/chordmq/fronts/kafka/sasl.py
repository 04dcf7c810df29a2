"""SaslHandshake, SaslAuthenticate: a client proves who it is, at first and again later."""

import asyncio
import math
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.principal import Login
from chordmq.codecs.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from chordmq.codecs.kafka.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from chordmq.errors import (
    AuthenticationFailed,
    ChordMQError,
    IllegalSaslState,
    UnsupportedSaslMechanism,
)
from chordmq.fronts.kafka.call import Call, Client
from chordmq.fronts.kafka.errors import CODES, code_of, reason_of

if TYPE_CHECKING:
    from chordmq.broker.security.sasl import Step

FAILURE_DELAY_S = 0.1
"""How long a refused client waits for its answer, as in Kafka."""
LIFETIME_MAX_MS = 2**63 - 1

Reply = tuple[bytes, int]
"""What to send back, and for how long the login holds in milliseconds; 0 for ever."""


def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Agree on a mechanism; where none is offered, none is accepted."""
    authenticator, session = call.front.authenticator, call.client.sasl
    if authenticator is None or session is None:
        return SaslHandshakeResponse(error_code=CODES[UnsupportedSaslMechanism])
    offered = list(authenticator.mechanisms)
    try:
        exchange = authenticator.begin(request.mechanism, call.client_host)
        session.choose(request.mechanism, exchange, is_bare=call.version == 0)
    except ChordMQError as error:
        return SaslHandshakeResponse(error_code=code_of(error), mechanisms=offered)
    return SaslHandshakeResponse(mechanisms=offered)


def sasl_authenticate(
    call: Call, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | Coroutine[None, None, SaslAuthenticateResponse]:
    """Take the client's next message; the last one makes the connection the user's.

    What can be judged at once is answered at once, without a task for each message.
    """
    authenticator, client = call.front.authenticator, call.client
    if authenticator is None:
        return SaslAuthenticateResponse(
            error_code=CODES[IllegalSaslState],
            error_message="This listener has no SASL mechanism; connect without SASL.",
        )
    exchange = client.sasl.exchange if client.sasl is not None else None
    try:
        step = exchange.step_at_once(request.auth_bytes) if exchange is not None else None
        if step is not None:
            return _response(_accept(authenticator, client, step))
    except AuthenticationFailed as error:
        return _later(_refuse(client, error))
    return _later(authenticate(authenticator, client, request.auth_bytes))


async def _later(work: Coroutine[None, None, Reply]) -> SaslAuthenticateResponse:
    try:
        return _response(await work)
    except ChordMQError as error:
        return SaslAuthenticateResponse(error_code=code_of(error), error_message=reason_of(error))


def _response(reply: Reply) -> SaslAuthenticateResponse:
    auth_bytes, lifetime_ms = reply
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=auth_bytes, session_lifetime_ms=lifetime_ms
    )


async def authenticate(authenticator: Authenticator, client: Client, message: bytes) -> Reply:
    """Take a message, and wait for whoever has to be asked."""
    session = client.sasl
    if session is None or session.exchange is None:
        raise IllegalSaslState("a handshake must come first")
    try:
        return _accept(authenticator, client, await session.exchange.step(message))
    except AuthenticationFailed as error:
        return await _refuse(client, error)


async def _refuse(client: Client, error: AuthenticationFailed) -> Reply:
    """End the login badly, and let the client wait for the answer."""
    assert client.sasl is not None
    client.sasl.refuse()
    await asyncio.sleep(FAILURE_DELAY_S)
    raise error


def _accept(authenticator: Authenticator, client: Client, step: "Step") -> Reply:
    session = client.sasl
    assert session is not None
    if step.login is None:
        return step.reply, 0
    if session.is_again and client.principal.name != step.login.principal.name:
        raise AuthenticationFailed("Cannot change principals during re-authentication")
    lifetime_ms = _lifetime_ms(authenticator, step.login)
    now_s = authenticator.clock.monotonic_s()
    session.prove(now_s + lifetime_ms / 1000 if lifetime_ms else math.inf)
    client.login, client.principal = step.login, step.login.principal
    return step.reply, lifetime_ms


def _lifetime_ms(authenticator: Authenticator, login: Login) -> int:
    """Return the shorter of what the node and the proof itself allow; 0 when neither ends."""
    longest = authenticator.settings.session_max_ms or LIFETIME_MAX_MS
    if login.expires_ms is not None:
        longest = min(longest, max(1, login.expires_ms - authenticator.clock.now_ms()))
    return 0 if longest == LIFETIME_MAX_MS else longest
