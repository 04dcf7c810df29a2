"""Encrypts records for the clients of fronts that cannot do so themselves, topic by topic.

Fronts that build batches seal what they take and open what they hand out. Kafka clients are given
what is stored, and open it with keys of their own; see `chordmq.encryption`.
"""

from collections.abc import Iterable

from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.errors import CannotStart, InvalidSetting
from chordmq.logs import get_logger
from chordmq.records.record import NewRecord, Record

log = get_logger(__name__)

ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionSettings:
    """Which topics are encrypted at this node, and with which keys."""

    keys: str = ""
    """A file of keys, or env:NAME; `chordmq keys create` makes one."""
    topics: str = ""
    """Topics with commas; one that ends with * stands for all that begin so."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return the topics, or raise InvalidSetting."""
        names = tuple(filter(None, (name.strip() for name in self.topics.split(","))))
        if bool(names) != bool(self.keys):
            raise InvalidSetting("encryption.keys and encryption.topics go together")
        return names


class Payloads:
    """Seals and opens the records of some topics; those of others pass."""

    def __init__(self, settings: EncryptionSettings, clock: Clock) -> None:
        # Loaded by those who encrypt only: it would make every start slower.
        from chordmq.encryption.envelope import Envelope, EnvelopeSettings
        from chordmq.encryption.errors import EncryptionError
        from chordmq.encryption.providers import key_provider

        try:
            keys = key_provider(settings.keys)
        except EncryptionError as error:
            raise CannotStart(f"encryption.keys cannot be used: {error}") from None
        self._faults = EncryptionError
        self._envelope = Envelope(keys, clock, EnvelopeSettings(accepts_plain=True))
        names = settings.patterns
        self._names = frozenset(name for name in names if not name.endswith(ANY))
        self._prefixes = tuple(name.removesuffix(ANY) for name in names if name.endswith(ANY))
        self.unopened = 0
        """Records that could not be opened."""

    def covers(self, topic: str) -> bool:
        """Say whether the records of a topic are encrypted here."""
        return topic in self._names or topic.startswith(self._prefixes)

    def seal(self, topic: str, records: Iterable[NewRecord]) -> list[NewRecord]:
        """Return the records as they are stored."""
        if not self.covers(topic):
            return list(records)
        return [self._envelope.seal(topic, record) for record in records]

    def open(self, topic: str, records: list[Record]) -> list[Record]:
        """Return the records as they were published; one that cannot be opened as it is stored."""
        if not self.covers(topic):
            return records
        return [self._opened(topic, record) for record in records]

    def _opened(self, topic: str, record: Record) -> Record:
        try:
            return self._envelope.open(topic, record)
        except self._faults as error:
            # Refusing it would keep the client from all that comes after.
            self.unopened += 1
            log.warning("not decrypted", topic=topic, offset=record.offset, reason=str(error))
            return record
