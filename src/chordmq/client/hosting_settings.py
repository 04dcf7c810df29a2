"""Which applications a node runs beside its own work."""

from dataclasses import field

from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AppsSettings:
    """Which applications a node runs, and as whom they log in."""

    run: str = ""
    """Applications to run inside the node, `module:app`, with commas."""
    user: str = ""
    """Who the applications are, where clients have to log in."""
    password: str = field(default="", repr=False)
    """The password of that user."""
    tls_ca: str = ""
    """File of the authority that vouches for the node, where its Kafka listener has TLS."""

    @property
    def names(self) -> list[str]:
        """Return the applications' names."""
        return [name.strip() for name in self.run.split(",") if name.strip()]
