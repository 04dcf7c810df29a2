"""Those who wait for something new, each woken once and then to ask again."""

from typing import Protocol


class Reader(Protocol):
    """Somebody who waits for new records; woken once, then asks again."""

    def wake(self) -> None:
        """Take note that there is more to read."""
        ...


class Audience:
    """Who waits; they are woken in the order in which they came."""

    def __init__(self) -> None:
        self._readers: dict[Reader, None] = {}

    @property
    def readers(self) -> int:
        """Return how many wait for more."""
        return len(self._readers)

    def wait(self, reader: Reader) -> None:
        """Have `reader` woken once when there is more."""
        self._readers[reader] = None

    def forget(self, reader: Reader) -> None:
        """Do not wake `reader` any more."""
        self._readers.pop(reader, None)

    def wake(self) -> None:
        """Wake all who wait."""
        readers, self._readers = self._readers, {}
        for reader in readers:
            reader.wake()
