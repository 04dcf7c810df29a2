"""Devices on a real node: paho for the device, HTTP and WebSocket for its clients."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import StartNode
from tests.fronts.websocket.gateway import gateway
from tests.iot.things import Asker, Thing, until
from tests.running_node import RunningNode


@pytest.fixture
def ask(node: RunningNode) -> Iterator[Asker]:
    with Asker(node) as asker:
        yield asker


def records(node: RunningNode, topic: str, name: str) -> list[dict[str, Any]]:
    """Return all records of one device in a topic."""
    path = f"{node.http}/v1/topics/{topic}/records"
    found = httpx.get(
        path, params={"partition": 0, "offset": 0, "max_records": 10_000}, timeout=60
    ).json()
    return [one for one in found["records"] if one["key"] == name]


def test_a_command_goes_to_the_device_and_its_answer_comes_back(
    node: RunningNode, ask: Asker, name: str
) -> None:
    """E10: HTTP → command topic → device (paho) → response → shadow."""
    with Thing(node, name) as thing:
        done = ask.ok("POST", f"/{name}/commands?wait_ms=50000", {"name": "dim", "parameters": 40})
        assert (done["state"], done["result"], done["attempts"]) == ("succeeded", 40, 1)
        assert thing.executed == [done["id"]]
        thing.publish("shadow/update", {"state": {"reported": {"light": 40}}})
        thing.wait_for("shadow/update/accepted")
    assert ask.ok("GET", f"/{name}/shadow")["state"]["reported"] == {"light": 40}
    assert [one["id"] for one in ask.ok("GET", f"/{name}/commands")["commands"]] == [done["id"]]


async def test_a_command_is_issued_and_watched_over_websocket(node: RunningNode, name: str) -> None:
    """E5, E10: publish and subscribe, and nothing else."""
    root = f"iotsphere/devices/{name}/commands/dim"
    thing = await asyncio.to_thread(Thing(node, name).__enter__)
    async with gateway(node) as client:
        await client.subscribe(f"{root}/status", encoding="json", start="latest")
        await client.publish(f"{root}/issue", json.dumps({"id": "w1", "parameters": {"to": 3}}))
        states = [told["payload"]["state"] for told in await client.values(3)]
    await asyncio.to_thread(thing.__exit__)
    assert states == ["issued", "sent", "succeeded"]
    assert thing.executed == ["w1"]


def test_a_conflict_is_answered_with_the_current_version(
    node: RunningNode, ask: Asker, name: str
) -> None:
    """E9: over HTTP 409 with the shadow as it is, over MQTT `rejected` with the same."""
    ask.ok("PATCH", f"/{name}/shadow", {"state": {"desired": {"light": 10}}})
    refused = ask("PATCH", f"/{name}/shadow", {"state": {"desired": {"light": 5}}, "version": 0})
    assert refused.status_code == 409
    assert (refused.json()["error"], refused.json()["version"]) == ("StaleVersion", 1)
    assert refused.json()["shadow"]["state"]["desired"] == {"light": 10}
    with Thing(node, name) as thing:
        thing.publish("shadow/update", {"state": {"reported": {"light": 1}}, "version": 9})
        rejected = thing.wait_for("shadow/update/rejected")
    assert (rejected["error"], rejected["version"]) == ("StaleVersion", 1)
    ask.ok("PATCH", f"/{name}/shadow", {"state": {"desired": {"light": 5}}, "version": 1})


def test_a_device_that_was_away_gets_the_delta_when_it_comes_back(
    node: RunningNode, ask: Asker, name: str
) -> None:
    """E9: without a session of its own, for the delta is retained; once it is gone, none comes."""
    with Thing(node, name) as thing:
        thing.publish("shadow/update", {"state": {"reported": {"light": 0}}})
        thing.wait_for("shadow/update/accepted")
    until(lambda: not ask.ok("GET", f"/{name}")["is_connected"])
    for light in (10, 20, 30):
        ask.ok("PATCH", f"/{name}/shadow", {"state": {"desired": {"light": light}}})
    with Thing(node, name) as thing:
        delta = thing.wait_for("shadow/update/delta")
        assert (delta["state"], delta["version"]) == ({"light": 30}, 4)
        thing.publish("shadow/update", {"state": {"reported": {"light": 30}}})
        thing.wait_for("shadow/update/accepted")
    assert ask.ok("GET", f"/{name}/shadow")["state"]["delta"] == {}
    with Thing(node, name) as thing:
        thing.publish("shadow/get", "")
        assert thing.wait_for("shadow/get/accepted")["version"] == 5
        assert all("delta" not in path for path, _ in thing.heard)


def test_commands_wait_until_the_device_is_back(node: RunningNode, ask: Asker, name: str) -> None:
    """E10: presence from sessions; a device that is away is not sent what it would not get."""
    with Thing(node, name, is_clean=False) as thing:
        thing.publish("status", "online")
        until(lambda: bool(ask("GET", f"/{name}").json().get("is_connected")))
    until(lambda: not ask.ok("GET", f"/{name}")["is_connected"])
    for number in range(3):
        ask.ok("POST", f"/{name}/commands", {"name": "step", "id": f"c{number}"})
    assert ask.ok("GET", f"/{name}/commands/c0")["state"] == "issued"
    with Thing(node, name, is_clean=False) as thing:
        done = ask.ok("GET", f"/{name}/commands/c2?wait_ms=50000")
    assert done["state"] == "succeeded"
    assert thing.executed == ["c0", "c1", "c2"]


def test_a_will_says_that_a_device_has_gone(node: RunningNode, ask: Asker, name: str) -> None:
    """E3, E9: a connection that breaks."""
    thing = Thing(node, name).__enter__()
    thing.publish("status", {"status": "online"})
    until(lambda: bool(ask("GET", f"/{name}").json().get("is_connected")))
    thing.client.loop_stop()
    sock = thing.client.socket()
    assert sock is not None
    sock.close()  # without DISCONNECT
    until(lambda: ask.ok("GET", f"/{name}")["status"] == "offline")
    assert not ask.ok("GET", f"/{name}")["is_connected"]


def test_an_unanswered_command_is_sent_again_and_expires(
    node: RunningNode, ask: Asker, name: str
) -> None:
    """E10: retries, time-out, cancellation."""
    wanted = {"name": "dim", "timeout_ms": 4000, "retry_ms": 200, "attempts_max": 3}
    with Thing(node, name, obeys=False) as thing:
        done = ask.ok("POST", f"/{name}/commands?wait_ms=50000", wanted)
        attempts = [thing.wait_for("commands/dim/request")["attempt"] for _ in range(3)]
    assert (done["state"], done["attempts"], attempts) == ("expired", 3, [1, 2, 3])
    issued = ask.ok("POST", f"/{name}/commands", {"name": "dim"})
    assert ask.ok("DELETE", f"/{name}/commands/{issued['id']}")["state"] == "cancelled"
    assert ask("DELETE", f"/{name}/commands/{done['id']}").status_code == 409


def test_bad_messages_of_a_device_go_to_the_dead_letters(
    node: RunningNode, ask: Asker, name: str
) -> None:
    """E1: with the reason."""
    with Thing(node, name) as thing:
        thing.publish("telemetry/t", '{"metadata": {"messageId": "m1"}, "payload": 4}')
        thing.publish("shadow/update", '{"state": 7}')
        thing.wait_for("shadow/update/rejected")
    until(lambda: len(records(node, "iotsphere.devices.dlq", name)) >= 2)
    letters = records(node, "iotsphere.devices.dlq", name)
    reasons = [
        header["value"]
        for letter in letters
        for header in letter["headers"]
        if header["name"] == "chordmq.dead.reason"
    ]
    assert len(reasons) == 2
    assert "timestamp" in reasons[0]
    assert "state" in reasons[1]


def test_devices_are_registered_listed_and_forgotten(ask: Asker, name: str) -> None:
    ask.ok("PUT", f"/{name}", {"model": name, "tags": {"room": "4"}})
    (found,) = ask.ok("GET", f"?model={name}")["devices"]
    assert (found["id"], found["tags"]) == (name, {"room": "4"})
    ask.ok("PATCH", f"/{name}/shadow", {"state": {"desired": {"light": 1}}})
    ask.ok("DELETE", f"/{name}/shadow")
    assert ask("GET", f"/{name}/shadow").status_code == 404
    ask.ok("DELETE", f"/{name}")
    assert ask("GET", f"/{name}").status_code == 404
    assert ask("PUT", "/a+b", {}).status_code == 400


def test_who_commands_a_device_is_in_the_audit_trail(start_node: StartNode) -> None:
    """E10, E13: what was issued, and how it ended."""
    node = start_node({"audit.enabled": "on"})
    with Asker(node) as ask:
        ask.ok("POST", "/d7/commands", {"name": "dim", "id": "c1"})
        ask.ok("DELETE", "/d7/commands/c1")

    def acts() -> set[str]:
        path = f"{node.http}/v1/topics/__audit/records"
        found = httpx.get(path, params={"partition": 0, "offset": 0}, timeout=60).json()["records"]
        events = [json.loads(one["value"]) for one in found]
        return {f"{one['who']}, {one['act']}: {one['obj']}" for one in events}

    wanted = {
        "User:http, command.issue: d7 dim c1",
        "User:http, command.cancel: d7 dim c1",
        "node, command.cancelled: d7 dim c1",
    }
    until(lambda: wanted <= acts())


def test_a_shadow_with_a_name_is_changed_over_http_and_told_over_mqtt(
    node: RunningNode, name: str
) -> None:
    """E9: the same rules for each shadow; a conflict answers with the one that was asked for."""
    update = {"state": {"desired": {"ssid": "home"}}}
    with Asker(node) as ask, Thing(node, name) as thing:
        found = ask.ok("PATCH", f"/{name}/shadow?name=network", update)
        assert found["version"] == 1
        delta = thing.wait_for("shadow/name/network/update/delta")
        assert delta["state"] == {"ssid": "home"}
        assert ask("GET", f"/{name}/shadow").status_code == 404
        stale = ask("PATCH", f"/{name}/shadow?name=network", {**update, "version": 9})
        assert stale.status_code == 409
        assert stale.json()["version"] == 1
        ask.ok("DELETE", f"/{name}/shadow?name=network&version=1")
        assert ask("GET", f"/{name}/shadow?name=network").status_code == 404
        assert ask("PATCH", f"/{name}/shadow?name=a%2Fb", update).status_code == 400


def test_telemetry_is_told_again_by_the_tables_of_a_file(
    start_node: StartNode, tmp_path: Path
) -> None:
    """E11: device → MQTT → normaliser → broker, by the model that the device is registered with."""
    tables = tmp_path / "models.yaml"
    tables.write_text("models: {acme-9: {metrics: {t1: temperature}, units: {temperature: F}}}")
    node = start_node({"iot.normalise": "true", "iot.models": str(tables)})
    with Asker(node) as ask, Thing(node, "d7") as thing:
        ask.insist("PUT", "/d7", {"model": "acme-9"})
        thing.client.subscribe(f"{thing.root}/measures/#", 1)
        until(lambda: _measured(thing))


def _measured(thing: Thing) -> bool:
    """Publish a value; return whether its measure has come."""
    thing.publish("telemetry/t1", "212")
    found = [told for path, told in list(thing.heard) if path == "measures/temperature"]
    return any(round(told["value"]) == 100 and told["unit"] == "C" for told in found)
