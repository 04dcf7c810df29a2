"""What can be set for the links between nodes."""

import ssl

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting
from chordmq.fronts.certificates import CIPHERS, VERSIONS
from chordmq.fronts.listener import ListenerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings(ListenerSettings):
    """Where other nodes reach this one, and how they prove to each other who they are."""

    port: int = 9094
    connections_max: int = 1_000
    frame_size_max: int = 256 * 1024 * 1024
    names: str = ""
    """Whom the certificates of nodes may name, with commas; empty: all that the authority signs."""

    @property
    def allowed(self) -> frozenset[str]:
        """Return the names that certificates of nodes may have; none are all."""
        return frozenset(filter(None, (name.strip() for name in self.names.split(","))))

    def check(self) -> None:
        """Raise InvalidSetting where only one side would prove who it is."""
        self.tls.check("peer.tls")
        if self.tls.is_on and self.tls.client_auth != "required":
            raise InvalidSetting(
                "peer.tls.client_auth must be required: nodes prove to each other who they are"
            )

    def context(self) -> ssl.SSLContext | None:
        """Return what TLS needs to dial another node: the same certificate, the same authority."""
        tls = self.tls
        if not tls.is_on:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = VERSIONS[tls.min_version]
        context.set_ciphers(CIPHERS)
        context.load_verify_locations(tls.client_ca)
        context.load_cert_chain(tls.certificate, tls.key or None)
        return context
