"""Keeps the last message of each topic and key, for those who do not want to wait (pure)."""

from collections import OrderedDict
from collections.abc import Iterator

from chordmq.client.consumer import Message

VALUES_MAX = 100_000


class LastValues:
    """The newest messages by topic and key; the one that changed longest ago gives way."""

    def __init__(self, values_max: int = VALUES_MAX) -> None:
        self._values_max = values_max
        self._last: OrderedDict[tuple[str, bytes | None], Message] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def add(self, message: Message) -> None:
        """Take a message; one without a value deletes what was there."""
        place = (message.topic, message.key)
        self._last.pop(place, None)
        if message.value is not None:
            self._last[place] = message
        if len(self._last) > self._values_max:
            self._last.popitem(last=False)

    def get(self, topic: str, key: bytes | None) -> Message | None:
        """Return the last message of a key."""
        return self._last.get((topic, key))

    def of(self, topic: str) -> Iterator[Message]:
        """Yield the last message of every key of a topic."""
        return (message for (name, _), message in self._last.items() if name == topic)
