"""Simulated devices: the same seed is the same device, and each fault comes sooner or later."""

import json

from chordmq.cli.simulated_devices import KINDS, SimulatedDevice


def life(number: int, seed: int = 1, steps: int = 4_000) -> list[tuple[str, bytes]]:
    device = SimulatedDevice(number, seed)
    return [reading for step in range(steps) for reading in device.readings(step * 2.0)]


def test_the_same_seed_is_the_same_life_and_another_one_is_another() -> None:
    assert life(0) == life(0)
    assert life(0) != life(0, seed=2)


def test_a_cold_room_is_cold_but_for_a_few_wrong_readings_and_some_garbage() -> None:
    values, garbage = [], 0
    for metric, payload in life(0):
        try:
            reading = json.loads(payload)
        except ValueError:
            garbage += 1
        else:
            if metric == "temperature":
                values.append(reading["value"])
    cold = [value for value in values if 0 < value < 10]
    assert 0 < len(values) - len(cold) < len(values) / 20
    assert 0 < garbage < 40


def test_every_kind_measures_with_its_units() -> None:
    for number, kind in enumerate(KINDS):
        device = SimulatedDevice(number)
        assert device.id.startswith(kind.name)
        assert {metric for metric, _ in device.readings(0)} >= {one.metric for one in kind.measures}


def test_a_battery_becomes_empty_and_full_again() -> None:
    charges = [json.loads(payload)["value"] for metric, payload in life(3) if metric == "battery"]
    assert min(charges) < 10 < 99 < max(charges)


def test_a_device_vanishes_now_and_then() -> None:
    device = SimulatedDevice(1)
    gone = [silent_s for _ in range(10_000) if (silent_s := device.vanishes_s())]
    assert 0 < len(gone) < 50
    assert all(45 <= silent_s <= 90 for silent_s in gone)


def test_a_device_obeys_its_shadow_and_nothing_else() -> None:
    device = SimulatedDevice(1)
    assert device.obey({"interval_s": 0.5})
    assert device.interval_s == 0.5
    assert json.loads(device.reported())["state"]["reported"]["interval_s"] == 0.5
    for seconds in (True, "1", 0, None):
        assert not device.obey({"interval_s": seconds})
    assert not device.obey(None)
    assert not device.obey({})
    assert device.interval_s == 0.5


def test_a_device_does_what_it_can_and_refuses_the_rest() -> None:
    device = SimulatedDevice(2)
    done = json.loads(device.answer("identify", {"id": "7"}))
    assert (done["id"], done["status"], done["result"]["device"]) == ("7", "succeeded", "pump-002")
    refused = json.loads(device.answer("fly", None))
    assert (refused["status"], refused["reason"]) == ("failed", "pump cannot fly")
