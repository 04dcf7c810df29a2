"""A disk that is almost full: writes are refused with a reason, reads go on, and it recovers."""

from kio.schema.errors import ErrorCode

from tests.conftest import StartNode
from tests.faults.test_crash import create_topic
from tests.running_node import RunningNode
from tests.waiting import wait_until
from tests.wire import Wire, record_batch, stored

MORE_THAN_ANY_DISK = str(1 << 60)


def test_writes_are_refused_and_reads_go_on(own_node: RunningNode, name: str) -> None:
    """C11: started with a threshold above what the disk has, the node counts it as full."""
    topic = create_topic(own_node, name)
    with Wire(own_node.address) as wire:
        assert wire.produce(topic, record_batch([b"before"])).error_code is ErrorCode.none
    own_node.stop()
    own_node.settings["broker.disk.free.stop.bytes"] = MORE_THAN_ANY_DISK
    own_node.start()
    with Wire(own_node.address) as wire:
        refused = wire.produce(topic, record_batch([b"too much"]))
        assert refused.error_code is ErrorCode.kafka_storage_error
        assert "disk" in (refused.error_message or "")
        assert stored(wire.fetch(topic, 0).records) == [(0, b"before")]
        assert own_node.metric("chordmq_writes_refused") == 1
    own_node.stop()
    del own_node.settings["broker.disk.free.stop.bytes"]
    own_node.start()
    with Wire(own_node.address) as wire:
        assert wire.produce(topic, record_batch([b"after"])).base_offset == 1


def test_a_disk_that_runs_low_is_warned_of(start_node: StartNode) -> None:
    """C11, C15: in the log and in the metrics, while writes are still taken."""
    node = start_node({"broker.disk.free.warn.bytes": MORE_THAN_ANY_DISK})
    topic = create_topic(node, "still-written")
    with Wire(node.address) as wire:
        assert wire.produce(topic, record_batch([b"v"])).error_code is ErrorCode.none
    assert node.metric("chordmq_disk_is_low") == 1
    assert node.metric("chordmq_writes_refused") == 0
    wait_until(lambda: "disk" in node.log.read_text())


def test_a_write_that_the_system_refuses_leaves_no_half_batch(
    own_node: RunningNode, name: str
) -> None:
    """C11, D5: the kernel stops a segment at 1 MB in the middle of a batch, as a full disk does."""
    topic = create_topic(own_node, name)
    own_node.stop()
    own_node.file_size_max = 1_000_000
    own_node.start()
    taken = 0
    with Wire(own_node.address) as wire:
        batch = record_batch([b"x" * 30_000])
        while (answer := wire.produce(topic, batch)).error_code is ErrorCode.none:
            taken += 1
        assert answer.error_code is ErrorCode.kafka_storage_error
        assert 30 <= taken <= 34
        for offset in range(taken):
            assert stored(wire.fetch(topic, offset, max_bytes=1).records)[0][0] == offset
        assert wire.produce(topic, record_batch([b"small"])).error_code is ErrorCode.none
    own_node.file_size_max = None
    own_node.restart()
    with Wire(own_node.address) as wire:
        assert wire.produce(topic, batch).base_offset == taken + 1
