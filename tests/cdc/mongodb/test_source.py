"""MongoDB's changes, from a real server, beside what Debezium tells of them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chordmq.cdc.change import Change, Position
from chordmq.cdc.errors import SourceRefused, SourceUnavailable
from chordmq.cdc.mongodb import server
from chordmq.cdc.mongodb.source import opened
from chordmq.cdc.runner import Runner
from chordmq.clock import SystemClock
from tests.cdc import changes
from tests.cdc.following import Written, following, id_of, read_until, source_of, until
from tests.cdc.golden import Told, differences, golden, opened_documents
from tests.later_mongodb import later_mongod
from tests.mongodb import running_mongod
from tests.replica_set import RunningReplicaSet, running_replica_set
from tests.running_node import RunningNode, free_port


@pytest.fixture
def database(name: str) -> str:
    return name.replace("-", "_")


def config(mongodb: RunningReplicaSet, database: str, **more: Any) -> dict[str, Any]:
    return {
        "name": database,
        "kind": "mongodb",
        "address": mongodb.address,
        "tables": {"include": [rf"{database}\..*"]},
        "pace": {"heartbeat_s": 0.5, "snapshot_rows": 50},
    } | more


async def begun(runner: Runner) -> None:
    """Wait until a source has stored where it begins."""
    await until(lambda: runner.measures.position is not None)


def has_id(text: str, op: str = "") -> Any:
    return lambda written: any(
        one.key == {"id": text} and (not op or one.op == op) for one in written
    )


async def test_every_type_and_kind_of_change_is_told_as_debezium_tells_it(
    node: RunningNode, database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """E8: the events are those that Debezium 3.6 told of the same changes, tombstones included."""
    theirs = {
        name: [opened_documents(one) for one in golden("mongodb", f"shop.shop.{name}")]
        for name in ("items", "plain")
    }
    count = sum(map(len, theirs.values()))
    with running_replica_set(tmp_path_factory.mktemp("own")) as mongodb:
        changes.prepare_mongodb(mongodb)
        settings = config(
            mongodb, "shop", name=database, images="post_image", before_images=True,
        )  # fmt: skip
        topics = [f"{database}.shop.items", f"{database}.shop.plain"]
        async with following(settings, node.bootstrap):
            await read_until(node.bootstrap, topics[:1], lambda found: len(found) >= 2)
            await asyncio.to_thread(changes.change_mongodb, mongodb)
            written = await read_until(node.bootstrap, topics, lambda found: len(found) >= count)
    for name, expected in theirs.items():
        ours = [told(one) for one in written if one.topic == f"{database}.shop.{name}"]
        assert not differences(ours, expected)


def told(one: Written) -> Told:
    if one.value is None:
        return one.key, "tombstone", None, None
    return opened_documents((one.key, one.op, one.value["before"], one.value["after"]))


async def test_a_snapshot_and_the_stream_after_it_leave_no_gap_and_repeat_nothing(
    mongodb: RunningReplicaSet, node: RunningNode, database: str
) -> None:
    """E8: documents written before, during and after the snapshot are each told once."""
    with mongodb.client() as client:
        items = client[database].items
        items.insert_many([{"_id": number} for number in range(400)])

        def write() -> None:
            for number in range(400, 600):
                items.insert_one({"_id": number})

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(write))
            async with following(config(mongodb, database), node.bootstrap):
                written = await read_until(
                    node.bootstrap, [f"{database}.{database}.items"], has_id("599")
                )
    assert sorted(int(one.key["id"]) for one in written) == list(range(600))
    assert {one.op for one in written} <= {"r", "c"}


async def test_a_snapshot_that_was_interrupted_goes_on_and_repeats_nothing(
    mongodb: RunningReplicaSet, database: str
) -> None:
    """E8: documents of the second part are as of later; the stream does not tell that again."""
    settings = source_of(config(mongodb, database))
    with mongodb.client() as client:
        items = client[database].items
        items.insert_many([{"_id": number, "v": 0} for number in range(1, 201)])
        seen: list[tuple[str, str]] = []
        position: Position | None = None
        async with opened(settings, None, SystemClock()) as stream:
            async for burst in stream.bursts():
                position = burst.position
                seen += [(one.op, id_of(one)) for one in burst.changes if isinstance(one, Change)]
                if len(seen) >= 60:
                    break
        items.update_one({"_id": 1}, {"$set": {"v": 1}})
        items.update_one({"_id": 199}, {"$set": {"v": 1}})
        items.insert_one({"_id": 201})
        items.delete_one({"_id": 2})
        async with opened(settings, position, SystemClock()) as stream:
            async for burst in stream.bursts():
                seen += [(one.op, id_of(one)) for one in burst.changes if isinstance(one, Change)]
                if ("u", "202") in seen:
                    break
                if burst.position.snapshot is None:
                    items.update_one({"_id": 202}, {"$inc": {"v": 1}}, upsert=True)
    reads = [key for op, key in seen if op == "r"]
    assert len(reads) == len(set(reads)) == 201
    others = [one for one in seen if one[0] != "r" and one[1] != "202"]
    assert others == [("u", "1"), ("d", "2")]


async def test_a_lost_position_leads_to_a_new_snapshot(
    mongodb: RunningReplicaSet, node: RunningNode, database: str
) -> None:
    """E8: error 286 says that the oplog no longer has what follows."""
    settings = config(mongodb, database)
    topics = [f"{database}.{database}.items"]
    with mongodb.client() as client:
        client[database].items.insert_one({"_id": 1})
        async with following(settings, node.bootstrap):
            await read_until(node.bootstrap, topics, has_id("1"))
        client[database].items.insert_one({"_id": 2})
        await asyncio.to_thread(roll_over, mongodb)
        async with following(settings, node.bootstrap):
            written = await read_until(node.bootstrap, topics, has_id("2"))
    assert [(one.op, one.key["id"]) for one in written] == [("r", "1"), ("r", "1"), ("r", "2")]


def roll_over(mongodb: RunningReplicaSet) -> None:
    """Write until the server has forgotten the oldest operation that there is now."""
    with mongodb.client() as client:
        oplog = client.local["oplog.rs"]
        newest = oplog.find_one(sort=[("$natural", -1)])
        assert newest is not None
        filler = client["filler"].noise
        while True:
            filler.insert_many([{"x": b"0" * 1_000_000} for _ in range(12)])
            filler.delete_many({})
            oldest = oplog.find_one(sort=[("$natural", 1)])
            if oldest is not None and oldest["ts"] > newest["ts"]:
                return


async def test_an_event_that_is_too_large_goes_to_the_dead_letters_and_the_rest_goes_on(
    mongodb: RunningReplicaSet, node: RunningNode, database: str
) -> None:
    """E8: error 10334: with both images the event is beyond the 16 MB of a document."""
    settings = config(mongodb, database, images="post_image", before_images=True)
    topics = [f"{database}.{database}.items"]
    with mongodb.client() as client:
        client[database].create_collection("items", changeStreamPreAndPostImages={"enabled": True})
        items = client[database].items
        items.insert_one({"_id": "large", "data": b"0" * 9_000_000})
        async with following(settings, node.bootstrap):
            await read_until(node.bootstrap, topics, has_id('"large"'))
            items.insert_one({"_id": "before"})
            items.update_one({"_id": "large"}, {"$set": {"v": 1}})
            items.insert_one({"_id": "after"})
            written = await read_until(node.bootstrap, topics, has_id('"after"'))
            letters = await read_until(node.bootstrap, [f"{database}.dlq"], bool)
        items.delete_many({})
    assert [one.key["id"] for one in written] == ['"large"', '"before"', '"after"']
    assert letters[0].key == {"id": '"large"'}
    assert b"larger than" in letters[0].headers["chordmq.error"]


@pytest.mark.slow
async def test_an_event_that_comes_in_parts_is_told_whole_and_the_source_goes_on_after_it(
    node: RunningNode, database: str, tmp_path: Path
) -> None:
    """E8: MongoDB 6.0.27 splits it; its last token is a position to go on from."""
    more = {"images": "post_image", "before_images": True}
    topics = [f"{database}.{database}.items"]
    with (
        running_replica_set(tmp_path, later_mongod()) as mongodb,
        mongodb.client() as client,
    ):
        settings = config(mongodb, database, topics={"message_bytes_max": 40_000_000}, **more)
        client[database].create_collection("items", changeStreamPreAndPostImages={"enabled": True})
        items = client[database].items
        items.insert_one({"_id": "large", "data": "0" * 9_000_000})
        async with following(settings, node.bootstrap):
            await read_until(node.bootstrap, topics, has_id('"large"'))
            items.update_one({"_id": "large"}, {"$set": {"v": 1}})
            await read_until(node.bootstrap, topics, has_id('"large"', "u"))
        items.insert_one({"_id": "after"})
        async with following(settings, node.bootstrap):
            written = await read_until(node.bootstrap, topics, has_id('"after"'))
    told = [(one.op, one.key["id"]) for one in written]
    assert told == [("r", '"large"'), ("u", '"large"'), ("c", '"after"')]
    update = written[1].value
    assert [len(update[side]) > 9_000_000 for side in ("before", "after")] == [True, True]
    assert update["updateDescription"]["updatedFields"] == '{"v":1}'


async def test_a_dropped_database_ends_no_source(
    mongodb: RunningReplicaSet, node: RunningNode, database: str
) -> None:
    """E8: the stream of one database ends with an event after which only startAfter goes on."""
    address = mongodb.address.replace("/?", f"/{database}?")
    settings = config(mongodb, database, address=address)
    topics = [f"{database}.{database}.items"]
    with mongodb.client() as client:
        client[database].items.insert_one({"_id": 1})
        async with following(settings, node.bootstrap) as runner:
            await read_until(node.bootstrap, topics, has_id("1"))
            client.drop_database(database)
            client[database].items.insert_one({"_id": 2})
            await read_until(node.bootstrap, topics, has_id("2"))
            assert runner.measures.restarts == 0


async def test_an_incremental_snapshot_reads_a_collection_again_while_changes_go_on(
    mongodb: RunningReplicaSet, node: RunningNode, database: str
) -> None:
    """E8: asked by a document in the signal collection; nothing is told in an older state."""
    settings = config(
        mongodb, database, signals=f"{database}.signals", snapshot="never", images="lookup"
    )
    topics = [f"{database}.{database}.items"]
    with mongodb.client() as client:
        items = client[database].items
        items.insert_many([{"_id": number, "v": 0} for number in range(1, 121)])

        def write() -> None:
            for number in range(1, 31):
                items.update_one({"_id": number}, {"$inc": {"v": 1}})

        async with following(settings, node.bootstrap) as runner, asyncio.TaskGroup() as tasks:
            await begun(runner)
            tasks.create_task(asyncio.to_thread(write))
            data = {"type": "incremental", "data-collections": [f"{database}.items"]}
            client[database].signals.insert_one({"type": "execute-snapshot", "data": data})
            written = await read_until(
                node.bootstrap,
                topics,
                lambda found: (
                    {one.key["id"] for one in found} == {str(n) for n in range(1, 121)}
                    and sum(one.op == "u" for one in found) == 30
                ),
            )
    last = {}
    for one in written:
        last[one.key["id"]] = one.value["after"]
    assert all('"v":1' in last[str(number)] for number in range(1, 31))
    reads = [one.key["id"] for one in written if one.op == "r"]
    assert len(reads) == len(set(reads))


async def test_fields_are_left_out_and_masked_in_documents_and_updates(
    mongodb: RunningReplicaSet, node: RunningNode, database: str
) -> None:
    columns = {"exclude": [r".*\.secret"], "mask": {r".*\.card\.number": "****"}}
    settings = config(mongodb, database, columns=columns)
    topics = [f"{database}.{database}.people"]
    with mongodb.client() as client:
        people = client[database].people
        async with following(settings, node.bootstrap) as runner:
            await begun(runner)
            people.insert_one({"_id": 1, "secret": "x", "card": {"number": "1", "year": 30}})
            people.update_one({"_id": 1}, {"$set": {"secret": "y", "card.number": "2"}})
            written = await read_until(node.bootstrap, topics, has_id("1", "u"))
    assert written[-1].value["after"] == '{"_id":1,"card":{"number":"****","year":30}}'
    assert written[-1].value["updateDescription"]["updatedFields"] == '{"card.number":"****"}'


async def test_a_server_without_a_replica_set_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_mongod(tmp_path_factory.mktemp("alone")) as address:
        settings = {"name": "alone", "kind": "mongodb", "address": address}
        with pytest.raises(SourceRefused, match="without a replica set"):
            async with opened(source_of(settings), None, SystemClock()):
                pass


async def test_a_server_that_is_not_there_is_said_clearly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "TIMEOUT_MS", 500)
    address = f"mongodb://127.0.0.1:{free_port()}/?replicaSet=rs0"
    settings = {"name": "away", "kind": "mongodb", "address": address}
    with pytest.raises(SourceUnavailable, match="Connect call failed"):
        async with opened(source_of(settings), None, SystemClock()):
            pass
