"""A link that another node has dialled: admitted like every client, then a link like ours."""

import asyncio

from chordmq.cluster.link import Link
from chordmq.cluster.links import Links
from chordmq.fronts.listener import Listener
from chordmq.fronts.peer.settings import PeerSettings


class PeerConnection(Link):
    """One link on the listener for nodes."""

    def __init__(self, links: Links, listener: Listener, settings: PeerSettings) -> None:
        super().__init__(links, frame_size_max=settings.frame_size_max)
        self._listener = listener
        self._allowed = settings.allowed
        self._host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the node, or hang up."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._host = peer[0] if peer else ""
        if not self._listener.admit(self, self._host):
            self.close("too many connections")
        elif self._allowed and self._listener.principal(transport).name not in self._allowed:
            self.close("the certificate names nobody who may be a node")

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the node out."""
        super().connection_lost(exc)
        self._listener.forget(self, self._host)

    @property
    def is_busy(self) -> bool:
        """Return whether a request is being worked on."""
        return self.under_way > 0

    def drain(self) -> None:
        """End the link: the node has handed over what it led before its listeners close."""
        self.close("the node is shutting down")

    def resume(self) -> None:
        """Nodes are never kept waiting for memory."""
