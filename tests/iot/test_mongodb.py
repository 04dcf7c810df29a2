"""Devices kept in a real MongoDB."""

from pathlib import Path
from typing import Any

from pymongo import MongoClient

from tests.conftest import StartNode
from tests.iot.things import Asker, Thing
from tests.mongodb import running_mongod


def test_shadows_and_commands_are_kept_in_mongodb_over_a_crash(
    start_node: StartNode, tmp_path: Path
) -> None:
    """E9, E10: command → device → response → shadow → MongoDB; kill -9 in between."""
    with running_mongod(tmp_path) as address:
        node = start_node({"iot.mongodb": address})
        with Thing(node, "d7", is_clean=False), Asker(node) as ask:
            wanted = {"name": "dim", "id": "c1", "parameters": 40}
            done = ask.ok("POST", "/d7/commands?wait_ms=50000", wanted)
            assert done["state"] == "succeeded"
            ask.ok("PATCH", "/d7/shadow", {"state": {"desired": {"light.x": 2**60, "$a": 1}}})
            ask.ok("PATCH", "/d7/shadow", {"state": {"reported": {"light": 40}}})
            node.restart()
            shadow = ask.insist("GET", "/d7/shadow").json()
            assert shadow["state"]["desired"] == {"light.x": 2**60, "$a": 1}
            assert (shadow["version"], shadow["state"]["reported"]) == (2, {"light": 40})
            again = ask.insist("POST", "/d7/commands", wanted)
            assert (again.status_code, again.json()["state"]) == (201, "succeeded")
        client: MongoClient[Any] = MongoClient(address)
        with client:
            database = client.get_default_database()
            stored = database["shadows"].find_one({"_id": "d7"})
            assert stored is not None
            assert stored["document"]["reported"] == {"light": 40}
            command = database["commands"].find_one({"document.state": "succeeded"})
            assert command is not None
            assert command["_id"] == "d7/c1"


def test_a_node_waits_for_a_mongodb_that_is_not_there(start_node: StartNode) -> None:
    """C1: other clients are served meanwhile; devices are answered with 503."""
    node = start_node({"iot.mongodb": "mongodb://127.0.0.1:1/chordmq"})
    with Thing(node, "d7") as thing, Asker(node) as ask:
        thing.publish("telemetry/t", "1")
        answer = ask("GET", "/d7")
        assert (answer.status_code, answer.json()["error"]) == (503, "CoordinatorLoading")
