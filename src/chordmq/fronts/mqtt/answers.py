"""What clients wait for: answers, which go out in the order of what they answer."""


class Answer:
    """One answer of several that go out in the order of what they answer (MQTT-4.6.0-2)."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data: bytes | None = None
