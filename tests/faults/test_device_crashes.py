"""Devices over repeated kill -9: commands are done once, no change is lost, none told twice."""

import collections
import json
import threading
from functools import partial
from typing import Any

import httpx

from tests.iot.things import Asker, Thing, until
from tests.running_node import RunningNode

COMMANDS = 40
CRASHES = 3
EARLY = 8
"""Commands after which the node crashes."""


def device_records(node: RunningNode) -> list[dict[str, Any]]:
    """Return every message of devices that the log holds."""
    path = f"{node.http}/v1/topics/iotsphere.devices/records"
    found, offset = [], 0
    while page := httpx.get(path, params={"partition": 0, "offset": offset}, timeout=60).json()[
        "records"
    ]:
        found += page
        offset = page[-1]["offset"] + 1
    return found


def test_nothing_is_lost_or_told_twice_by_crashes(own_node: RunningNode) -> None:
    """E9, E10, C1: kill -9 between command, device, response and shadow."""
    node = own_node
    crashed: list[int] = []
    over = threading.Event()
    progress = threading.Condition()
    count = [0]

    def is_at(due: int) -> bool:
        return count[0] >= due

    def crash() -> None:
        for number in range(CRASHES):
            due = EARLY * (number + 1)
            with progress:
                progress.wait_for(partial(is_at, due))
            node.restart()
            crashed.append(number)
        over.wait()  # for a node ends with the thread that has started it

    saboteur = threading.Thread(target=crash, daemon=True)
    saboteur.start()
    with Thing(node, "d7", is_clean=False) as thing, Asker(node) as ask:
        version = 0
        for number in range(COMMANDS):
            wanted = {"name": "step", "id": f"c{number}", "parameters": number, "retry_ms": 500}
            answer = ask.insist("POST", "/d7/commands", wanted)
            assert answer.status_code == 201, answer.text
            change = {"state": {"desired": {f"n{number}": number}}, "version": version}
            answer = ask.insist("PATCH", "/d7/shadow", change)
            # Told of a conflict, it was this very change whose answer the crash swallowed.
            shadow = answer.json() if answer.status_code == 200 else answer.json()["shadow"]
            version = shadow["version"]
            assert shadow["state"]["desired"][f"n{number}"] == number
            with progress:
                count[0] += 1
                progress.notify()
        until(lambda: len(crashed) == CRASHES)
        for number in range(COMMANDS):
            ended = ask.insist("GET", f"/d7/commands/c{number}?wait_ms=30000").json()
            assert (ended["state"], ended["result"]) == ("succeeded", number)
        shadow = ask.ok("GET", "/d7/shadow")
        assert thing.executed == [f"c{number}" for number in range(COMMANDS)]
    assert shadow["state"]["desired"] == {f"n{number}": number for number in range(COMMANDS)}
    assert shadow["version"] == COMMANDS
    _check_told(node)
    over.set()
    saboteur.join()


def _check_told(node: RunningNode) -> None:
    """Look at all that the service has published: by ids, and by what it says."""
    found = [one["value"] for one in device_records(node)]
    values = [json.loads(value) for value in found if value.startswith("{")]
    told = [
        (one["metadata"]["topic"], one)
        for one in values
        if one.get("metadata", {}).get("source") == "chordmq"
    ]
    ids = collections.Counter(one["metadata"]["messageId"] for _, one in told)
    assert [name for name, times in ids.items() if times > 1] == []
    states = collections.Counter(
        (one["payload"]["id"], one["payload"]["state"])
        for name, one in told
        if name.endswith("/commands/step/status")
    )
    for number in range(COMMANDS):
        assert [states[f"c{number}", state] for state in ("issued", "sent", "succeeded")] == [1] * 3
    accepted = [
        one["payload"]["version"] for name, one in told if name.endswith("/update/accepted")
    ]
    assert accepted == [*range(1, COMMANDS + 1)]
