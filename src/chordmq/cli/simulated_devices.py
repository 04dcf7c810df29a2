"""Devices that do not exist: what each of them measures, how it fails, and what it answers.

A device is a function of its number, a source of chance and the time; it knows no connection.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import field
from random import Random
from typing import Any

from chordmq.dataclass import dataclass

DAY_S = 240.0
"""A day of the simulated world, so that curves can be seen."""
SPIKE_READINGS = 4
SPIKE = 0.002
"""How likely a reading begins a few wrong ones."""
BABBLE = 0.0005
"""How likely a reading is no reading at all."""
SILENCE = 0.001
"""How likely a device vanishes after a reading."""
SILENT_S = (45.0, 90.0)

Reading = tuple[str, bytes]
"""The metric, and the payload."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that a kind of device measures."""

    metric: str
    unit: str
    mean: float
    swing: float
    """By how much it rises and falls in a day."""
    noise: float
    spike: float | None = None
    """What a broken sensor adds."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A model of device."""

    name: str
    measures: tuple[Measure, ...]


KINDS = (
    Kind(
        "cold-room",
        (
            Measure("temperature", "C", 4.0, 0.6, 0.15, spike=70.0),
            Measure("humidity", "%", 62.0, 4.0, 1.0),
        ),
    ),
    Kind(
        "greenhouse",
        (
            Measure("temp", "F", 75.0, 12.0, 0.5, spike=90.0),
            Measure("humidity", "ratio", 0.7, 0.1, 0.01),
        ),
    ),
    Kind(
        "pump", (Measure("pressure", "bar", 3.2, 0.2, 0.05), Measure("volt", "V", 230.0, 2.0, 0.8))
    ),
    Kind("tracker", (Measure("rssi_dbm", "dBm", -71.0, 6.0, 2.0),)),
)
BATTERY_S = 8 * DAY_S
"""How long a charge lasts."""


@dataclass(slots=True)
class SimulatedDevice:
    """One device with its moods."""

    number: int
    seed: int = 1
    chance: Random = field(init=False)
    kind: Kind = field(init=False)
    id: str = field(init=False)
    interval_s: float = 2.0
    _wrong: int = 0
    _phase: float = field(init=False)

    def __post_init__(self) -> None:
        """Give it a name and a character."""
        self.kind = KINDS[self.number % len(KINDS)]
        self.id = f"{self.kind.name}-{self.number:03d}"
        self.chance = Random(f"{self.seed}/{self.number}")  # noqa: S311 (a game of chance)
        self._phase = self.chance.uniform(-0.3, 0.3)

    @property
    def model(self) -> bytes:
        """Return what it is, for the registry of devices."""
        place = ("Lyon", "Turin", "Graz", "Delft")[self.number // len(KINDS) % 4]
        return _json({"model": self.kind.name, "tags": {"site": place, "fleet": "demo"}})

    def readings(self, now_s: float) -> Iterator[Reading]:
        """Give what it measures now."""
        if self._wrong:
            self._wrong -= 1
        elif self.chance.random() < SPIKE:
            self._wrong = SPIKE_READINGS
        for measure in self.kind.measures:
            if self.chance.random() < BABBLE:
                yield measure.metric, b"E07 sensor not ready"
                continue
            value = self._value(measure, now_s)
            yield measure.metric, _json({"value": round(value, 3), "unit": measure.unit})
        if self.kind.name == "tracker":
            yield "battery", _json({"value": round(self._battery(now_s), 1), "unit": "%"})

    def vanishes_s(self) -> float:
        """Return for how long it is gone now; mostly 0."""
        return self.chance.uniform(*SILENT_S) if self.chance.random() < SILENCE else 0.0

    def reported(self) -> bytes:
        """Return what it says of itself, for its shadow."""
        return _json({"state": {"reported": {"interval_s": self.interval_s, "firmware": "1.4.2"}}})

    def obey(self, wanted: Any) -> bool:
        """Take what is wanted of it; False if that means nothing to it."""
        seconds = wanted.get("interval_s") if isinstance(wanted, dict) else None
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0.1:
            return False
        self.interval_s = float(seconds)
        return True

    def answer(self, name: str, request: Any) -> bytes:
        """Answer a command: it can identify itself, calibrate and restart."""
        if name in ("identify", "calibrate", "restart"):
            self._wrong = 0
            said = {"status": "succeeded", "result": {"device": self.id, "did": name}}
        else:
            said = {"status": "failed", "reason": f"{self.kind.name} cannot {name}"}
        return _json({"id": request.get("id") if isinstance(request, dict) else None, **said})

    def _value(self, measure: Measure, now_s: float) -> float:
        wave = math.sin(2 * math.pi * now_s / DAY_S + self._phase)
        value = measure.mean + measure.swing * wave + self.chance.gauss(0, measure.noise)
        return value + measure.spike if self._wrong and measure.spike is not None else value

    def _battery(self, now_s: float) -> float:
        """Return a charge that falls from full to a tenth, and is full again."""
        return 100 - 92 * ((now_s / BATTERY_S + self.number * 0.37) % 1)


def _json(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
