"""How devices name and measure things: the tables that turn their words into ours.

A file `models.yaml` adds to the built-in tables or replaces rows of them:

    metrics: {temp: temperature}            # what devices say: what we say
    units:                                  # unit: the common unit, factor, shift
      degF: [C, 0.5555555555555556, -17.77777777777778]
    limits: {temperature: [-90, 150]}       # metric: the least and the most that can be true
    thresholds: {temperature: [-20, 60]}    # metric: outside of it somebody is told
    models:                                 # devices of one model: their words, units they mean
      acme-9: {metrics: {t1: temperature}, units: {temperature: F}}
"""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from chordmq.dataclass import dataclass


class BadModels(ValueError):
    """A file of device models says something that cannot be used."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """A unit in terms of a common one: common = value * factor + shift."""

    unit: str
    factor: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """What devices of one model mean: their names of metrics, and units that they do not say."""

    metrics: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    """By metric, in its common name."""


METRICS = {
    "temp": "temperature",
    "hum": "humidity",
    "rh": "humidity",
    "press": "pressure",
    "volt": "voltage",
    "batt": "battery",
    "rssi_dbm": "rssi",
}
UNITS = {
    "C": Conversion("C"),
    "°C": Conversion("C"),
    "celsius": Conversion("C"),
    "F": Conversion("C", 5 / 9, -160 / 9),
    "°F": Conversion("C", 5 / 9, -160 / 9),
    "fahrenheit": Conversion("C", 5 / 9, -160 / 9),
    "K": Conversion("C", 1.0, -273.15),
    "%": Conversion("%"),
    "ratio": Conversion("%", 100.0),
    "Pa": Conversion("hPa", 0.01),
    "hPa": Conversion("hPa"),
    "kPa": Conversion("hPa", 10.0),
    "bar": Conversion("hPa", 1000.0),
    "psi": Conversion("hPa", 68.94757293168),
    "V": Conversion("V"),
    "mV": Conversion("V", 0.001),
    "A": Conversion("A"),
    "mA": Conversion("A", 0.001),
    "W": Conversion("W"),
    "kW": Conversion("W", 1000.0),
    "Wh": Conversion("Wh"),
    "kWh": Conversion("Wh", 1000.0),
    "m": Conversion("m"),
    "km": Conversion("m", 1000.0),
    "m/s": Conversion("m/s"),
    "km/h": Conversion("m/s", 1 / 3.6),
    "lx": Conversion("lx"),
    "ppm": Conversion("ppm"),
    "dBm": Conversion("dBm"),
}
LIMITS = {
    "temperature": (-90.0, 1000.0),
    "humidity": (0.0, 100.0),
    "pressure": (0.0, 20_000.0),
    "battery": (0.0, 100.0),
}
THRESHOLDS = {"temperature": (-20.0, 60.0), "humidity": (5.0, 95.0), "battery": (10.0, 100.0)}


@dataclass(frozen=True, slots=True)
class Models:
    """The tables in force."""

    metrics: Mapping[str, str] = field(default_factory=lambda: dict(METRICS))
    units: Mapping[str, Conversion] = field(default_factory=lambda: dict(UNITS))
    limits: Mapping[str, tuple[float, float]] = field(default_factory=lambda: dict(LIMITS))
    thresholds: Mapping[str, tuple[float, float]] = field(default_factory=lambda: dict(THRESHOLDS))
    models: Mapping[str, DeviceModel] = field(default_factory=dict)


def read_models(path: Path | None) -> Models:
    """Return the built-in tables, with what a file says on top."""
    if path is None:
        return Models()
    import yaml

    try:
        said = yaml.safe_load(path.read_text()) or {}
        models = Models(
            metrics=METRICS | {str(k): str(v) for k, v in said.pop("metrics", {}).items()},
            units=UNITS | {str(k): Conversion(*v) for k, v in said.pop("units", {}).items()},
            limits=LIMITS | _pairs(said.pop("limits", {})),
            thresholds=THRESHOLDS | _pairs(said.pop("thresholds", {})),
            models={str(k): DeviceModel(**v) for k, v in said.pop("models", {}).items()},
        )
    except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise BadModels(f"{path}: {error}") from error
    if said:
        raise BadModels(f"{path}: there are no tables {', '.join(map(str, said))}")
    return models


def _pairs(rows: Mapping[Any, Any]) -> dict[str, tuple[float, float]]:
    return {str(metric): (float(least), float(most)) for metric, (least, most) in rows.items()}
