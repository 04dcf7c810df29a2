"""kcat with Debian's librdkafka 2.0, unmodified, against the broker."""

import json

import pytest

from tests.interop.conftest import CreateTopic
from tests.interop.program import installed, run
from tests.wire import FETCH, Wire

COMPRESSION_CODES = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def kcat(bootstrap: str, *arguments: str, given: bytes = b"") -> bytes:
    return run([installed("kcat"), "-b", bootstrap, *arguments], given=given)


def lines(count: int) -> bytes:
    return b"".join(b"key-%d:value-%d\n" % (index, index) for index in range(count))


def test_it_lists_brokers_and_topics(bootstrap: str, create_topic: CreateTopic) -> None:
    """C1: Metadata for all topics and for one."""
    topic = create_topic(partitions=3)
    listed = json.loads(kcat(bootstrap, "-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [bootstrap]
    assert topic in {row["topic"] for row in listed["topics"]}
    (one,) = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))["topics"]
    assert [row["partition"] for row in one["partitions"]] == [0, 1, 2]


def test_it_produces_and_consumes(bootstrap: str, name: str) -> None:
    """C1: to a topic that its first message creates."""
    kcat(bootstrap, "-P", "-t", name, "-K:", given=lines(500))
    assert kcat(bootstrap, "-C", "-t", name, "-K:", "-e", "-q", "-o", "beginning") == lines(500)
    assert kcat(bootstrap, "-C", "-t", name, "-K:", "-e", "-q", "-o", "-1") == lines(500)[-18:]


@pytest.mark.parametrize("compression", COMPRESSION_CODES)
def test_compressed_batches_are_stored_as_they_came(
    bootstrap: str, create_topic: CreateTopic, wire: Wire, compression: str
) -> None:
    """C5: this client compresses only when it finds Produce 0 among the versions (KAFKA-18659)."""
    topic = create_topic()
    # A batch of few records would grow by compression, and the client then leaves it as it is.
    together = ["-X", "linger.ms=30000", "-X", "batch.num.messages=500"]
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-z", compression, *together, given=lines(500))
    assert kcat(bootstrap, "-C", "-t", topic, "-K:", "-e", "-q") == lines(500)
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}]
    fetched = wire.call(
        FETCH, 4, replica_id=-1, max_bytes=1_000_000,
        topics=[{"topic": topic, "partitions": partitions}],
    )  # fmt: skip
    batch = fetched.responses[0].partitions[0].records
    attributes = int.from_bytes(batch[21:23], "big")
    assert attributes & 7 == COMPRESSION_CODES[compression]


def test_it_queries_offsets_by_time(bootstrap: str, name: str) -> None:
    """C6: ListOffsets by timestamp, -1 for the end and -2 for the beginning."""
    kcat(bootstrap, "-P", "-t", name, given=b"one\ntwo\nthree\n")

    def query(time: str) -> bytes:
        return kcat(bootstrap, "-Q", "-t", f"{name}:0:{time}").strip()

    assert query("-1") == f"{name} [0] offset 3".encode()
    assert query("-2") == f"{name} [0] offset 0".encode()
    assert query("1") == f"{name} [0] offset 0".encode()


def test_it_consumes_in_a_group_and_resumes(bootstrap: str, create_topic: CreateTopic) -> None:
    """A5, C1: the balanced consumer joins, commits when it leaves, and continues later."""
    topic = create_topic(partitions=2)
    group = ["-G", f"{topic}-group", "-K:", "-e", "-q", "-X", "auto.offset.reset=earliest", topic]
    kcat(bootstrap, "-P", "-t", topic, "-K:", given=lines(100))
    assert sorted(kcat(bootstrap, *group).splitlines()) == sorted(lines(100).splitlines())
    kcat(bootstrap, "-P", "-t", topic, "-K:", given=b"later:one\n")
    assert kcat(bootstrap, *group) == b"later:one\n"
