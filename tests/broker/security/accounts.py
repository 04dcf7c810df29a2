"""Users on a real database, and an authenticator over them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.auth_settings import AuthSettings
from chordmq.broker.security.users import Users
from chordmq.clock import Clock, ManualClock
from chordmq.cluster.image import Image
from chordmq.storage.metadata.database import Database

ALL = "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN"


@contextmanager
def users_at(directory: Path, clock: Clock | None = None) -> Iterator[Users]:
    """Open the users of a directory, and close them again."""
    database = Database(directory / "meta.db")
    try:
        clock = clock or ManualClock()
        yield Users(Image.local(database, clock), clock)
    finally:
        database.close()


@contextmanager
def authenticator_at(
    directory: Path, settings: AuthSettings | None = None, clock: Clock | None = None
) -> Iterator[Authenticator]:
    """Open an authenticator on a directory, and close it again."""
    clock = clock or ManualClock()
    with users_at(directory, clock) as users:
        authenticator = Authenticator(settings or AuthSettings(mechanisms=ALL), users, clock)
        try:
            yield authenticator
        finally:
            authenticator.close()
