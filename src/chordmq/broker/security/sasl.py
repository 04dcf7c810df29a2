"""The node's side of each SASL mechanism: messages in, replies out, a login at the end."""

import json
from abc import ABC, abstractmethod

from chordmq.broker.security.accounts import Credential
from chordmq.broker.security.auth import REFUSAL, Authenticator
from chordmq.broker.security.auth_settings import OAUTHBEARER, PLAIN, SCRAM_256, SCRAM_512
from chordmq.broker.security.principal import Login, Principal
from chordmq.broker.security.scram import ScramServer
from chordmq.dataclass import dataclass
from chordmq.errors import AuthenticationFailed

MESSAGE_SIZE_MAX = 128 * 1024
"""Bearer tokens with many groups are the longest messages that are meant seriously."""
SEPARATOR = "\x01"


@dataclass(frozen=True, slots=True)
class Step:
    """What to send back; the login as soon as there is one."""

    reply: bytes
    login: Login | None = None


class Exchange(ABC):
    """One login attempt of one client."""

    def __init__(self, authenticator: Authenticator, mechanism: str, address: str) -> None:
        self._authenticator = authenticator
        self._mechanism = mechanism
        self._address = address

    async def step(self, message: bytes) -> Step:
        """Take the client's next message; raise AuthenticationFailed when it proves nothing."""
        return await self._step(self._text(message))

    def step_at_once(self, message: bytes) -> Step | None:
        """Do as `step` if nobody else has to be asked, and return None if somebody has."""
        return None

    @abstractmethod
    async def _step(self, text: str) -> Step: ...

    def _text(self, message: bytes) -> str:
        if len(message) > MESSAGE_SIZE_MAX:
            raise self._failed("", "the message is too long")
        try:
            return message.decode()
        except UnicodeDecodeError:
            raise self._failed("", "the message is not UTF-8") from None

    def _failed(self, name: str, reason: str) -> AuthenticationFailed:
        return self._authenticator.failed(self._mechanism, name, self._address, reason)


class Plain(Exchange):
    """RFC 4616: name and password in one message."""

    async def _step(self, text: str) -> Step:
        parts = text.split("\0")
        if len(parts) != 3:
            raise self._failed("", "the message does not have three parts")
        on_behalf_of, name, password = parts
        if on_behalf_of not in ("", name):
            raise self._failed(name, "nobody may act on behalf of another user")
        login = await self._authenticator.check_password(name, password, self._address)
        return Step(b"", login)


class Scram(Exchange):
    """RFC 5802: both sides prove that they know the password, and neither says it.

    The node's nonce is new each time, so that a recorded exchange proves nothing when replayed.
    """

    def __init__(self, authenticator: Authenticator, mechanism: str, address: str) -> None:
        super().__init__(authenticator, mechanism, address)
        self._server = ScramServer(mechanism, self._credential)
        self._has_begun = False

    def step_at_once(self, message: bytes) -> Step:
        """Take the client's next message; what proves it is in memory."""
        return self._judge(self._text(message))

    async def _step(self, text: str) -> Step:
        return self._judge(text)

    def _judge(self, text: str) -> Step:
        server = self._server
        try:
            if not self._has_begun:
                self._has_begun = True
                return Step(server.first(text).encode())
            final = server.final(text).encode()
        except ValueError as error:
            raise self._failed(server.name, str(error)) from None
        self._authenticator.succeeded(self._mechanism, server.name, self._address)
        return Step(final, Login(Principal(server.name), proof=server.credential))

    def _credential(self, name: str) -> Credential:
        self._authenticator.refuse_guessing(self._mechanism, name, self._address)
        return self._authenticator.credential(self._mechanism, name)


class OAuthBearer(Exchange):
    """RFC 7628: a token that an issuer has signed.

    A refused client gets a reason as JSON first, and the failure after it has answered with \\x01.
    """

    _is_refused = False

    async def _step(self, text: str) -> Step:
        if self._is_refused:
            raise AuthenticationFailed(REFUSAL)
        try:
            token = _bearer_token(text)
        except ValueError as error:
            raise self._failed("", str(error)) from None
        try:
            return Step(b"", await self._authenticator.check_token(token, self._address))
        except AuthenticationFailed:
            self._is_refused = True
            return Step(json.dumps({"status": "invalid_token"}).encode())


def _bearer_token(text: str) -> str:
    """Return the token of `n,a=name,\\x01auth=Bearer token\\x01key=value\\x01\\x01`."""
    head, _, rest = text.partition(SEPARATOR)
    pairs = rest.split(SEPARATOR)
    if not head.startswith(("n,", "y,")) or not head.endswith(",") or pairs[-2:] != ["", ""]:
        raise ValueError("the message does not follow RFC 7628")
    for pair in pairs[:-2]:
        key, _, value = pair.partition("=")
        scheme, _, token = value.partition(" ")
        if key == "auth" and scheme.lower() == "bearer":
            return token.strip()
    raise ValueError("the message holds no bearer token")


EXCHANGES: dict[str, type[Exchange]] = {
    PLAIN: Plain,
    SCRAM_256: Scram,
    SCRAM_512: Scram,
    OAUTHBEARER: OAuthBearer,
}
