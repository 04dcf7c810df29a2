"""What can be set for a front that clients call procedures of."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from chordmq.fronts.listener import ListenerSettings


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CapnpSettings(RpcSettings):
    """The Cap'n Proto front."""

    port: int = 9085


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings(RpcSettings):
    """The gRPC front."""

    port: int = 9086
    alpn: ClassVar[tuple[str, ...]] = ("h2",)
