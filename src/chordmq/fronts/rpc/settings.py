"""What can be set for a front that clients call procedures of."""

from importlib.util import find_spec
from typing import ClassVar, Literal

from chordmq.dataclass import dataclass
from chordmq.errors import CannotStart
from chordmq.fronts.listener import ListenerSettings
from chordmq.logs import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcSettings(ListenerSettings):
    """Where the front listens, and how much its clients may ask for."""

    enabled: Literal["auto", "on", "off"] = "auto"
    """Whether the front is there; `auto` means if its libraries are installed."""
    connections_max: int = 5_000
    frame_size_max: int = 16 * 1024 * 1024
    """Bytes that one call may have."""
    subscriptions_max: int = 100
    """Subscriptions of one connection."""
    window_bytes: int = 4 * 1024 * 1024
    """Bytes of a streaming producer that may be on their way to the disk."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """What must be installed."""

    @property
    def is_installed(self) -> bool:
        """Return whether the libraries are installed."""
        try:
            return all(find_spec(name) is not None for name in self.libraries)
        except ModuleNotFoundError:
            return False

    def is_wanted(self, name: str) -> bool:
        """Return whether the front is to be there; raise CannotStart if it cannot be."""
        is_installed = self.is_installed
        if not is_installed and self.enabled == "on":
            raise CannotStart(
                f"{name}.enabled is on, and its libraries are not installed: "
                f"pip install 'chordmq[{name}]', or set {name}.enabled=auto."
            )
        if is_installed and self.enabled != "off":
            return True
        reason = "" if self.enabled == "off" else f"install chordmq[{name}] to have it"
        log.info("front is off", front=name, reason=reason or f"{name}.enabled is off")
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapnpSettings(RpcSettings):
    """The Cap'n Proto front."""

    port: int = 9085
    libraries: ClassVar[tuple[str, ...]] = ("capnp",)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings(RpcSettings):
    """The gRPC front."""

    port: int = 9086
    libraries: ClassVar[tuple[str, ...]] = (
        "grpc",
        "grpc_health",
        "grpc_reflection",
        "google.protobuf",
    )
    alpn: ClassVar[tuple[str, ...]] = ("h2",)
