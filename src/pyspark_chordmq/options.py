"""What a user can say about a source or a sink, by the names that Spark's Kafka connector has."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from chordmq.client.bulk import Bulk, BulkSettings
from chordmq.client.connection import ConnectionSettings
from chordmq.client.security import Security
from pyspark_chordmq.ranges import Offsets, Place, from_json

EARLIEST, LATEST = -2, -1
"""How an option's JSON says the ends of a partition."""
ROWS_PER_TASK_MAX = 5_000_000

Bound = int | Offsets | Literal["earliest", "latest"]
"""A time in milliseconds, offsets by partition, or one of the ends."""


class BadOption(ValueError):
    """An option has no meaning, or two contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one query, read and checked."""

    bootstrap: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: dict[str, tuple[int, ...]] = field(default_factory=dict)
    start: Bound = "latest"
    stop: Bound = "latest"
    rows_per_trigger: int = 0
    tasks_min: int = 1
    rows_per_task: int = ROWS_PER_TASK_MAX
    fail_on_data_loss: bool = True
    with_headers: bool = False
    with_envelope: bool = False
    columns: tuple[str, ...] = ()
    """The columns to make, when no schema says it; empty for all."""
    push_filters: bool = False
    data_directory: str = ""
    """The directory of a node on this machine, whose files are read instead of asking it."""
    local_files: bool = True
    """Whether files are read where a task finds those of the broker itself on its machine."""
    archive: str = ""
    """The directory of an archive, for what the log no longer has."""
    read_committed: bool = True
    group: str = ""
    """Where to commit the query's progress, for those who watch its lag; empty commits nothing."""
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    topic: str = ""
    """The topic that a sink writes to, when rows do not name one."""
    compression: str = "none"
    query: str = ""
    """The name by which a sink recognises what it has written already; a stream has its own."""
    batch: int | None = None
    """The number of the micro-batch that a table is, when a stream writes it by foreachBatch."""

    def bulk(self) -> BulkSettings:
        """Return how to reach the broker."""
        return BulkSettings(
            bootstrap=self.bootstrap,
            connection=self.connection,
            read_committed=self.read_committed,
            fail_on_data_loss=self.fail_on_data_loss,
        )

    def places(self, broker: Bulk) -> list[Place]:
        """Return the partitions that are named, as they are now."""
        if self.assigned:
            return [(topic, index) for topic, all_ in self.assigned.items() for index in all_]
        if self.topics:
            return broker.places_of(self.topics)
        return broker.places_like(self.pattern)


def read_options(given: Mapping[str, str], *, streaming: bool = False) -> Options:
    """Read the options of a source or sink; names are not sensitive to case."""
    options = {name.lower(): value for name, value in given.items()}
    bootstrap = options.get("kafka.bootstrap.servers") or options.get("bootstrap.servers")
    assigned = _assigned(options)
    chosen = [name for name in ("subscribe", "subscribepattern", "assign") if options.get(name)]
    if len(chosen) > 1:
        raise BadOption(f"give only one of subscribe, subscribePattern and assign, not {chosen}")
    return Options(
        bootstrap=bootstrap or "localhost:9092",
        topics=_listed(options, "subscribe"),
        pattern=_pattern(options.get("subscribepattern", "")),
        assigned=assigned,
        start=_bound(options, "starting", "latest" if streaming else "earliest"),
        stop=_bound(options, "ending", "latest"),
        rows_per_trigger=_number(options, "maxOffsetsPerTrigger", 0),
        tasks_min=_number(options, "minPartitions", 1),
        rows_per_task=_number(options, "maxRecordsPerPartition", ROWS_PER_TASK_MAX),
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        with_headers=_flag(options, "includeHeaders", False),
        with_envelope=_flag(options, "includeEnvelope", False),
        columns=_listed(options, "columns"),
        push_filters=_flag(options, "pushFilters", False),
        data_directory=options.get("datadirectory", ""),
        local_files=_flag(options, "localFiles", True),
        archive=options.get("archive", ""),
        read_committed=_isolation(options),
        group=options.get("group", options.get("kafka.group.id", "")),
        connection=ConnectionSettings(client_id="chordmq-spark", security=_security(options)),
        topic=options.get("topic", ""),
        compression=options.get("compression", "none"),
        query=options.get("query", ""),
        batch=_batch(options),
    )


def _listed(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in options.get(name, "").split(",") if one.strip())


def _batch(options: Mapping[str, str]) -> int | None:
    text = options.get("batchid", "")
    if not text:
        return None
    if not text.isdecimal() or not options.get("query"):
        raise BadOption("batchId wants the number that foreachBatch gives, and option query a name")
    return int(text)


def _assigned(options: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    text = options.get("assign", "")
    if not text:
        return {}
    try:
        return {topic: tuple(map(int, indexes)) for topic, indexes in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise BadOption(f'assign wants JSON such as {{"topic": [0, 1]}}, not {text!r}') from error


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise BadOption(f"subscribePattern is not a regular expression: {error}") from error
    return text


def _bound(options: Mapping[str, str], side: str, default: Literal["earliest", "latest"]) -> Bound:
    """Read startingOffsets or startingTimestamp, endingOffsets or endingTimestamp."""
    time = options.get(f"{side}timestamp")
    if time:
        return _milliseconds(f"{side}Timestamp", time)
    text = options.get(f"{side}offsets", default).strip()
    if text in ("earliest", "latest"):
        if side == "ending" and text == "earliest":
            raise BadOption("endingOffsets cannot be earliest: nothing would be read")
        return "earliest" if text == "earliest" else "latest"
    try:
        return from_json(json.loads(text))
    except (ValueError, AttributeError, TypeError) as error:
        raise BadOption(
            f'{side}Offsets wants earliest, latest or JSON such as {{"topic": {{"0": 23}}}}, '
            f"not {text!r}"
        ) from error


def _milliseconds(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadOption(f"{name} wants milliseconds since 1970, not {text!r}") from error


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name.lower(), "")
    if not text:
        return default
    if not text.isdecimal() or int(text) == 0:
        raise BadOption(f"{name} wants a whole number above zero, not {text!r}")
    return int(text)


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise BadOption(f"{name} wants true or false, not {text!r}")
    return text == "true"


def _isolation(options: Mapping[str, str]) -> bool:
    level = options.get("kafka.isolation.level", "read_committed")
    if level not in ("read_committed", "read_uncommitted"):
        raise BadOption(f"kafka.isolation.level cannot be {level!r}")
    return level == "read_committed"


def _security(options: Mapping[str, str]) -> Security:
    return Security(
        user=options.get("user", ""),
        password=options.get("password", ""),
        token=options.get("token", ""),
        mechanism=options.get("mechanism", options.get("kafka.sasl.mechanism", "")),
        tls=_flag(options, "tls", False),
        tls_ca=options.get("tlsca", ""),
        tls_certificate=options.get("tlscertificate", ""),
        tls_key=options.get("tlskey", ""),
    )
