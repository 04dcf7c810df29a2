"""What the node did for the requests of one API."""

from chordmq.dataclass import dataclass


@dataclass(slots=True)
class Usage:
    """How often an API was called, and how long the event loop worked on it."""

    requests: int = 0
    failures: int = 0
    busy_s: float = 0.0
