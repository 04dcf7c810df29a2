"""How much the clients of the HTTP front may ask for."""

from chordmq.dataclass import dataclass
from chordmq.fronts.listener import ListenerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings(ListenerSettings):
    """Where HTTP is served, and its limits."""

    port: int = 8080
    connections_max: int = 1_000
    body_size_max: int = 16 * 1024 * 1024
    """Bytes that the body of a request may have."""
    batch_records_max: int = 10_000
    """Records that one request may publish, or read."""
    streams_per_client_max: int = 100
    """Event streams that one user may have open from one address."""
    http3_port: int = 0
    """Port for HTTP/2 (TCP) and HTTP/3 (UDP), with the certificate of `tls`; 0 opens none."""
    demo: bool = True
    """Whether the web console may start simulated devices on the node's machine."""
    pipeline: str = "127.0.0.1:9464"
    """Where the data pipeline beside this node tells its metrics, for `/v1/pipeline`."""
