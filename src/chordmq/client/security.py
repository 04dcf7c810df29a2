"""How a client proves who it is, and checks whom it talks to: TLS and the SASL mechanisms."""

import ssl
from collections.abc import Callable, Generator
from dataclasses import field
from typing import TYPE_CHECKING

from chordmq.client.errors import BrokerRefused, ServerNotProved, check
from chordmq.codecs.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from chordmq.codecs.kafka.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from chordmq.dataclass import dataclass

if TYPE_CHECKING:
    from chordmq.client.connection import Connection

PLAIN, OAUTHBEARER, SCRAM_512 = "PLAIN", "OAUTHBEARER", "SCRAM-SHA-512"
RENEWED_AT = 0.85
"""The part of a session's life after which the client logs in again (KIP-368)."""

Dialogue = Generator[bytes, bytes, None]
"""Yields the client's messages and is sent the broker's replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What a client is told about itself and its brokers; prints without its secrets."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    """A bearer token, in place of user and password."""
    mechanism: str = ""
    """Empty means SCRAM-SHA-512 with a password and OAUTHBEARER with a token."""
    tls: bool = False
    tls_ca: str = ""
    """PEM file with the authorities to trust; empty means the system's. Switches TLS on."""
    tls_certificate: str = ""
    """PEM file with the client's own certificate, and its key if `tls_key` is empty."""
    tls_key: str = ""

    @property
    def sasl(self) -> str:
        """Return the mechanism to log in with; empty to log in with none."""
        if self.token:
            return self.mechanism or OAUTHBEARER
        return (self.mechanism or SCRAM_512) if self.user else ""

    def context(self) -> ssl.SSLContext | None:
        """Return what TLS needs, or None without TLS."""
        if not (self.tls or self.tls_ca or self.tls_certificate):
            return None
        context = ssl.create_default_context(cafile=self.tls_ca or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.tls_certificate:
            context.load_cert_chain(self.tls_certificate, self.tls_key or None)
        return context


async def log_in(connection: "Connection", security: Security) -> float | None:
    """Prove who we are; return after how many seconds to do so again, or None for never."""
    mechanism = security.sasl
    subject = f"login at {connection.address} by {mechanism}"
    agreed = await connection.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    if agreed.error_code:
        offered = ", ".join(agreed.mechanisms) or "none"
        raise BrokerRefused(agreed.error_code, subject, f"the broker offers {offered}")
    dialogue = DIALOGUES.get(mechanism, scram)(security)
    lifetime_ms = 0
    try:
        message = next(dialogue)
        while True:
            answer = await connection.call(
                SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse
            )
            check(answer.error_code, subject, answer.error_message)
            lifetime_ms = answer.session_lifetime_ms
            message = dialogue.send(answer.auth_bytes)
    except StopIteration:
        return lifetime_ms / 1000 * RENEWED_AT if lifetime_ms else None


def plain(security: Security) -> Dialogue:
    """Say name and password (RFC 4616)."""
    yield f"\0{security.user}\0{security.password}".encode()


def bearer(security: Security) -> Dialogue:
    """Show a token (RFC 7628)."""
    refusal = yield f"n,,\x01auth=Bearer {security.token}\x01\x01".encode()
    if refusal:
        yield b"\x01"


def scram(security: Security) -> Dialogue:
    """Prove to know the password, and have the broker prove it too (RFC 5802)."""
    from scramp import ScramClient, ScramException

    try:
        client = ScramClient([security.sasl], security.user, security.password)
        reply = yield client.get_client_first().encode()
        client.set_server_first(reply.decode())
        reply = yield client.get_client_final().encode()
        client.set_server_final(reply.decode())
    except (ScramException, UnicodeDecodeError):
        raise ServerNotProved("the broker does not prove that it knows the password") from None


DIALOGUES: dict[str, Callable[[Security], Dialogue]] = {PLAIN: plain, OAUTHBEARER: bearer}
"""The mechanisms other than SCRAM."""
