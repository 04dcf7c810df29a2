"""Whether and where traces are told, and what opens them."""

from typing import TYPE_CHECKING

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

if TYPE_CHECKING:
    from chordmq.tracing.tracing import Tracing


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """Where spans go, and how many."""

    endpoint: str = ""
    """OpenTelemetry collector that takes OTLP over HTTP, `http://127.0.0.1:4318`; empty: none."""
    sample: float = 1.0
    """Share of the traces begun here that are recorded; one begun by a client decides itself."""
    service: str = "chordmq"
    """Name of the service in traces."""

    def check(self) -> None:
        """Raise InvalidSetting for what cannot be."""
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise InvalidSetting("tracing.endpoint must be an address such as http://10.0.0.1:4318")
        if self.sample > 1:
            raise InvalidSetting("tracing.sample must be between 0 and 1")

    def open(self) -> "Tracing | None":
        """Return what records spans; None where nobody wants them."""
        if not self.endpoint:
            return None
        # Loads OpenTelemetry, which most nodes do without.
        try:
            from chordmq.tracing.tracing import Tracing
        except ImportError:
            raise InvalidSetting(
                "tracing.endpoint needs OpenTelemetry: pip install 'chordmq[otel]'"
            ) from None
        return Tracing(self)
