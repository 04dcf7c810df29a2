"""What can be set for a node that is part of a cluster."""

import ssl
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from chordmq.cluster.controller import ControllerSettings
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

if TYPE_CHECKING:
    from chordmq.cluster.metastore.etcd import EtcdStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(ControllerSettings):
    """Where the cluster keeps its facts, and how it treats its brokers."""

    store: Literal["local", "etcd"] = "local"
    """Where topics, users and leaders are kept: on this node alone, or in etcd for a cluster."""
    endpoints: str = "http://127.0.0.1:2379"
    """Addresses of etcd's members, with commas."""
    name: str = "chordmq"
    """Name of the cluster; clusters of different names can share an etcd."""
    user: str = ""
    """Who logs in to etcd; empty if it asks nobody."""
    password: str = field(default="", repr=False)
    """Password of that user."""
    ca: str = ""
    """File with the authority that signs etcd's certificates; empty: those of the system."""
    certificate: str = ""
    """File with the certificate that this node shows etcd."""
    key: str = ""
    """File with its key."""
    timeout_s: float = 1.0
    """How long a member of etcd may take to answer before another is asked."""
    lease_s: float = 2.0
    """How long a broker that is not heard of counts as living."""

    popular_bytes_s: float = 64 * 1024 * 1024
    """Bytes a second that are read of a partition, from where on its copies share the readers."""
    popular_readers: int = 200
    """Readers that wait at a partition's end, from where on its copies share them; 0: never."""

    @property
    def is_on(self) -> bool:
        """Return whether the node is part of a cluster."""
        return self.store != "local"

    def check(self) -> None:
        """Raise InvalidSetting for what cannot be."""
        places = self.places
        if self.is_on and (
            not places or any(not one.startswith(("http://", "https://")) for one in places)
        ):
            raise InvalidSetting("cluster.endpoints must be addresses such as http://10.0.0.1:2379")
        if self.lease_s < 1:
            raise InvalidSetting("cluster.lease_s must be 1 or more")
        if not self.name or "/" in self.name:
            raise InvalidSetting("cluster.name must not be empty, nor hold a slash")

    def open(self) -> "EtcdStore":
        """Return the cluster's store; the first call connects."""
        # A node alone starts without them.
        from chordmq.cluster.metastore.etcd import EtcdStore
        from chordmq.cluster.metastore.gateway import GatewaySettings

        gateway = GatewaySettings(
            endpoints=self.places,
            timeout_s=self.timeout_s,
            user=self.user,
            password=self.password,
            tls=self.context(),
        )
        return EtcdStore(gateway, f"/chordmq/{self.name}/")

    @property
    def places(self) -> tuple[str, ...]:
        """Return the addresses of etcd's members."""
        return tuple(filter(None, (one.strip() for one in self.endpoints.split(","))))

    def context(self) -> ssl.SSLContext | None:
        """Return how etcd's members are trusted and told who we are; None without TLS."""
        if not any(one.startswith("https://") for one in self.places):
            return None
        context = ssl.create_default_context(cafile=self.ca or None)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key or None)
        return context
