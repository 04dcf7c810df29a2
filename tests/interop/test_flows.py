"""The flows of the IoT layer with real parts: Chromium, paho, MongoDB; each part killed in turn."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from benchmarks.browser import chromium, sdk_site
from tests.cdc.following import FollowingProcess
from tests.conftest import StartNode
from tests.iot.things import Thing, until
from tests.replica_set import RunningReplicaSet, running_replica_set
from tests.running_node import RunningNode

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]

DEVICE = "lamp"
CONNECT = """async (url) => {
  const { Client, IndexedDbStore } = await import("/src/index.js")
  const backoff = { firstMs: 50, mostMs: 200 }
  window.client = new Client(url, { clientId: "page", store: new IndexedDbStore(), backoff })
  window.synchronised = []
  client.addEventListener("synchronised", ({ detail }) => synchronised.push(detail.id))
  client.start()
}"""
ISSUE = """(ids) => {
  window.done = Promise.all(ids.map((id) => client.command("lamp", "dim", { level: id }, { id })))
  window.done.catch(() => {})
}"""
DONE = "async () => (await window.done).map(({ id, state }) => [id, state])"
QUEUED = "() => client.queued"


def named(stage: str) -> list[str]:
    """Return the ids of a stage's commands."""
    return [f"{stage}-{number}" for number in range(3)]


def issue(page: Page, stage: str) -> None:
    """Have the page issue commands; they need not have ended."""
    page.evaluate(ISSUE, named(stage))


def succeeded(stage: str) -> list[list[str]]:
    return [[one, "succeeded"] for one in named(stage)]


def test_commands_from_a_browser_survive_the_death_of_every_part(
    start_node: StartNode, tmp_path: Path
) -> None:
    """E10, E12: browser → device → response → shadow → MongoDB; nothing is lost or done twice."""
    with (
        running_replica_set(tmp_path / "mongodb") as database,
        sdk_site() as site,
        chromium() as browser,
    ):
        node = start_node({"iot.mongodb": database.address, "websocket.origins": "*"})
        page = browser.new_context().new_page()
        _open(page, site, node)
        with Thing(node, DEVICE, is_clean=False) as thing:
            issue(page, "all-well")
            assert page.evaluate(DONE) == succeeded("all-well")

            node.kill9()
            issue(page, "node-killed")
            node.start()
            assert page.evaluate(DONE) == succeeded("node-killed")

            database.kill9()
            issue(page, "database-killed")
            database.start()
            assert page.evaluate(DONE) == succeeded("database-killed")

        # The device is cut off: commands and the delta of its shadow wait for it.
        issue(page, "device-away")
        desired = "() => client.updateShadow('lamp', { desired: { level: 7 } })"
        assert page.evaluate(desired)["version"] == 1
        executed = thing.executed
        with Thing(node, DEVICE, is_clean=False) as thing:
            thing.executed = executed
            assert page.evaluate(DONE) == succeeded("device-away")
            delta = thing.wait_for("shadow/update/delta")
            assert delta["state"] == {"level": 7}
            thing.publish("shadow/update", {"state": {"reported": {"level": 7}}})

            # The page dies with commands in its offline queue, and another one opens.
            node.kill9()
            page.evaluate("() => client.dropConnection()")
            issue(page, "page-closed")
            until(lambda: page.evaluate(QUEUED) == 0 or _entries(page) == len(named("page-closed")))
            page.close()
            node.start()
            page = browser.contexts[0].new_page()
            _open(page, site, node)
            page.wait_for_function("() => synchronised.length === 3")
            until(lambda: set(named("page-closed")) <= set(thing.executed))
        _check_database(database, thing)


WATCH = """async (url) => {
  const { Client } = await import("/src/index.js")
  window.seen = []
  const backoff = { firstMs: 50, mostMs: 200 }
  const client = await new Client(url, { backoff }).connect()
  const note = ({ json }) => json && seen.push([json.op, JSON.parse(json.after)._id])
  await client.subscribe("flow.shop.items", note, { start: "earliest" })
}"""
CHANGES = 30
WAIT_MS = 150_000


def test_changes_of_a_database_reach_a_browser_whoever_dies(
    start_node: StartNode, tmp_path: Path
) -> None:
    """E8, E12: MongoDB → capture → broker → WebSocket, killed in turn; each change comes once."""
    with (
        running_replica_set(tmp_path / "mongodb") as database,
        sdk_site() as site,
        chromium() as browser,
    ):
        node = start_node({"websocket.origins": "*"})
        include = {"include": [r"shop\.items"]}
        config = {"name": "flow", "kind": "mongodb", "address": database.address, "tables": include}
        capture = FollowingProcess(tmp_path, config, node.bootstrap)
        try:
            _insert(database, 0)
            capture.start()
            until(lambda: node.answers("/v1/topics/flow.shop.items"))
            page = browser.new_page()
            page.goto(f"{site}/test/page.html")
            host, port = node.http_address
            page.evaluate(WATCH, f"ws://{host}:{port}/ws")
            capture.kill9()
            _insert(database, 1)
            capture.start()
            _insert(database, 2)
            database.kill9()
            database.start()
            _insert(database, 3)
            node.kill9()
            _insert(database, 4)
            node.start()
            wanted = 5 * CHANGES
            page.wait_for_function("(count) => seen.length >= count", arg=wanted, timeout=WAIT_MS)
            seen = page.evaluate("() => seen")
        finally:
            capture.close()
    assert [number for _, number in seen] == list(range(wanted))


def _insert(database: RunningReplicaSet, turn: int) -> None:
    with database.client() as client:
        numbers = range(turn * CHANGES, (turn + 1) * CHANGES)
        client["shop"]["items"].insert_many([{"_id": number} for number in numbers])


def _open(page: Page, site: str, node: RunningNode) -> None:
    host, port = node.http_address
    page.goto(f"{site}/test/page.html")
    page.evaluate(CONNECT, f"ws://{host}:{port}/ws")


def _entries(page: Page) -> int:
    """Return how many messages the page's store holds."""
    found: int = page.evaluate("async () => (await client.store.entries()).length")
    return found


def _check_database(running: RunningReplicaSet, thing: Thing) -> None:
    stages = ("all-well", "node-killed", "database-killed", "device-away", "page-closed")
    wanted = [one for stage in stages for one in named(stage)]
    assert sorted(thing.executed) == sorted(wanted)
    with running.client() as client:
        database = client["chordmq"]

        def all_stored() -> bool:
            found = database["commands"].find({"document.state": "succeeded"})
            return {one["_id"] for one in found} == {f"{DEVICE}/{one}" for one in wanted}

        until(all_stored)
        shadow = database["shadows"].find_one({"_id": DEVICE})
    assert shadow is not None
    assert shadow["document"]["reported"] == {"level": 7}
