"""The same routes over HTTP/2 and HTTP/3, through hypercorn (the extra `chordmq[http3]`)."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette

from chordmq.errors import CannotStart
from chordmq.fronts.admin.settings import HttpSettings

if TYPE_CHECKING:
    from hypercorn.config import Config

GRACE_S = 1.0


def configured(settings: HttpSettings) -> "Config":
    """Return hypercorn's settings, or raise CannotStart for what stands in its way."""
    tls = settings.tls
    if not tls.is_on:
        raise CannotStart("http.http3_port needs http.tls.certificate: HTTP/3 is always encrypted.")
    if tls.client_auth != "none":
        raise CannotStart("http.http3_port: clients' certificates cannot be asked for over HTTP/3.")
    try:
        from hypercorn.config import Config
    except ImportError:
        raise CannotStart("http.http3_port needs `pip install chordmq[http3]`.") from None
    config = Config()
    address = f"{settings.host}:{settings.http3_port}"
    config.bind = [address]
    config.quic_bind = [address]
    config.certfile = tls.certificate
    config.keyfile = tls.key or tls.certificate
    config.alpn_protocols = ["h2", "http/1.1"]
    config.include_server_header = False
    config.keep_alive_timeout = settings.idle_timeout_s
    config.graceful_timeout = config.shutdown_timeout = GRACE_S
    config.errorlog = None
    return config


class Http3:
    """One port, TCP for HTTP/2 and UDP for HTTP/3."""

    def __init__(self, app: Starlette, settings: HttpSettings) -> None:
        self._app = app
        self._config = configured(settings)
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Serve until closed."""
        from hypercorn.asyncio import serve

        app = cast(Any, self._app)
        try:
            await serve(app, self._config, shutdown_trigger=self._stopping.wait, mode="asgi")
        except OSError as error:
            raise CannotStart(f"http.http3_port cannot be opened: {error.strerror}.") from None

    def close(self) -> None:
        """Take no more requests, and end."""
        self._stopping.set()
