"""Names and passwords as clients of AMQP send them; a signed token counts as a password."""

from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.auth_settings import OAUTHBEARER
from chordmq.broker.security.principal import ANONYMOUS, Login
from chordmq.errors import AuthenticationFailed

PROTOCOL = "AMQP"
TOKEN_START = "eyJ"  # noqa: S105  how every signed token begins: `{"` in base64


def read_plain(response: bytes) -> tuple[str, str]:
    """Return name and password (RFC 4616); raise AuthenticationFailed if there are none."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise AuthenticationFailed("the response is not that of PLAIN")
    try:
        return parts[1].decode(), parts[2].decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("names and passwords are UTF-8") from None


async def check_plain(
    authenticator: Authenticator | None, name: str, password: str, host: str
) -> Login:
    """Return who the client is; raise AuthenticationFailed if it does not prove it."""
    if authenticator is None or not authenticator.is_on:
        return Login(ANONYMOUS)  # nobody can be told from anybody
    if is_token(authenticator, password):
        return await authenticator.check_token(password, host, PROTOCOL)
    return await authenticator.check_password(name, password, host, "PLAIN")


def is_token(authenticator: Authenticator, text: str) -> bool:
    """Return whether a password is a signed token (JWT) of an issuer that is trusted."""
    is_signed = text.startswith(TOKEN_START) and text.count(".") == 2
    return is_signed and OAUTHBEARER in authenticator.mechanisms
