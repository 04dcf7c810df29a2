"""What a pipeline is told: where the broker is, where results go, and how often it looks."""

from dataclasses import dataclass, field
from pathlib import Path

from chordmq.client.security import Security
from chordmq.iot.models import Models


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
    archive: Path = Path("data/archive")
    """The archive of topics, with the typed tables beside it."""
    trigger: str = "1 second"
    tables_trigger: str = "1 minute"
    """How often the typed tables grow; each time adds a file for each day and hour."""
    watch_trigger: str = "5 seconds"
    """How often silent devices are looked for; each look wakes Python workers."""
    once: bool = False
    """Process what is there now, and stop."""
    rows_per_batch: int = 200_000
    window: str = "1 minute"
    late: str = "1 minute"
    offline_s: float = 60.0
    models: Models = field(default_factory=Models)
    security: Security = field(default_factory=Security)
    """Who the pipeline is to the broker; a client's certificate is read where Spark's tasks run."""

    @property
    def devices(self) -> str:
        """Return the log topic of everything that devices say."""
        return f"{self.root}.devices"

    def connection(self) -> dict[str, str]:
        """Return the options that sources and sinks share."""
        who = self.security
        said = {
            "user": who.user,
            "password": who.password,
            "token": who.token,
            "mechanism": who.mechanism,
            "tls": "true" if who.tls else "",
            "tlsCa": who.tls_ca,
            "tlsCertificate": who.tls_certificate,
            "tlsKey": who.tls_key,
        }
        options = {"kafka.bootstrap.servers": self.bootstrap}
        return options | {name: value for name, value in said.items() if value}
