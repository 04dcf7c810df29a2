"""What can be set for devices, their shadows and their commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chordmq.dataclass import dataclass
from chordmq.errors import CannotStart

if TYPE_CHECKING:
    from chordmq.iot.desk import Rules
    from chordmq.iot.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class IotSettings:
    """How devices are looked after."""

    registration: Literal["auto", "required"] = "auto"
    """auto: a device is known from its first message on; required: somebody registers it first."""
    shadow_size_max: int = 32 * 1024
    """Bytes that both sides of a shadow may have together, as JSON."""
    shadow_depth_max: int = 8
    """Levels that a shadow may have."""
    command_timeout_s: float = 60.0
    """How long a device has for a command that does not say so itself."""
    command_retry_s: float = 10.0
    """After how long a command is sent again to a device that does not acknowledge it."""
    command_attempts_max: int = 3
    """How often a command is sent at most."""
    commands_in_flight: int = 1
    """Commands that a device may have under way; 1 keeps them strictly in order."""
    commands_waiting_max: int = 1_000
    """Commands that may wait for one device."""
    commands_overflow: Literal["refuse", "drop_oldest"] = "refuse"
    """What happens when too many commands wait: the new one is refused, or the oldest dropped."""
    commands_kept_s: float = 24 * 60 * 60.0
    """How long a command can be asked about after its end."""
    normalise: bool = False
    """Whether telemetry is told again under `measures/`, in common names, units and time."""
    models: str = ""
    """A file with tables for that: names, units, and what devices of a model mean."""
    mongodb: str = ""
    """Address of a MongoDB that keeps devices; empty: the topic `__devices` keeps them."""

    @property
    def rules(self) -> "Rules":
        """Return the rules that this means."""
        from chordmq.iot.commands import Patience
        from chordmq.iot.desk import Rules
        from chordmq.iot.flow import Flow, SlowConsumer
        from chordmq.iot.shadow import Limits

        return Rules(
            limits=Limits(size_max=self.shadow_size_max, depth_max=self.shadow_depth_max),
            patience=Patience(
                timeout_ms=round(self.command_timeout_s * 1000),
                retry_ms=round(self.command_retry_s * 1000),
                attempts_max=self.command_attempts_max,
                kept_ms=round(self.commands_kept_s * 1000),
            ),
            flow=Flow(
                credit=self.commands_in_flight,
                waiting_max=self.commands_waiting_max,
                policy=SlowConsumer(self.commands_overflow),
            ),
            registers=self.registration == "auto",
            models=self._models() if self.normalise else None,
        )

    def _models(self) -> "Models":
        from chordmq.iot.models import BadModels, read_models

        try:
            return read_models(Path(self.models) if self.models else None)
        except BadModels as error:
            raise CannotStart(f"iot.models: {error}.") from None
