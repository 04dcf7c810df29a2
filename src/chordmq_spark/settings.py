"""What a pipeline is told: where the broker is, where results go, and how often it looks."""

from dataclasses import dataclass, field
from pathlib import Path

from chordmq_spark.models import Models


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """The settings of all jobs; each uses what it needs."""

    bootstrap: str = "localhost:9092"
    directory: Path = Path("data/pipeline")
    """Checkpoints, Spark's scratch files and the embedded store."""
    root: str = "iotsphere"
    """The first level of the devices' topic names."""
    mongodb: str = ""
    """The address of a MongoDB for the readings; empty keeps them in a file of SQLite."""
    trigger: str = "1 second"
    watch_trigger: str = "5 seconds"
    """How often silent devices are looked for; each look wakes Python workers."""
    once: bool = False
    """Process what is there now, and stop."""
    rows_per_batch: int = 200_000
    window: str = "1 minute"
    late: str = "1 minute"
    offline_s: float = 60.0
    models: Models = field(default_factory=Models)
    user: str = ""
    password: str = field(default="", repr=False)
    tls_ca: str = ""

    @property
    def devices(self) -> str:
        """Return the log topic of everything that devices say."""
        return f"{self.root}.devices"

    def connection(self) -> dict[str, str]:
        """Return the options that sources and sinks share."""
        options = {"kafka.bootstrap.servers": self.bootstrap}
        said = {"user": self.user, "password": self.password, "tlsCa": self.tls_ca}
        return options | {name: value for name, value in said.items() if value}
