"""Those who wait are woken once, in the order in which they came."""

from chordmq.broker.audience import Audience


class Sleeper:
    def __init__(self, name: str, woken: list[str]) -> None:
        self._name = name
        self._woken = woken

    def wake(self) -> None:
        self._woken.append(self._name)


def test_each_is_woken_once_and_in_order() -> None:
    woken: list[str] = []
    audience = Audience()
    one, two, three = (Sleeper(name, woken) for name in ("one", "two", "three"))
    for sleeper in (two, one, three, two):
        audience.wait(sleeper)
    audience.forget(three)
    assert audience.readers == 2
    audience.wake()
    audience.wake()
    assert woken == ["two", "one"]
    assert audience.readers == 0
