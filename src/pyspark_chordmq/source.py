"""`format("chordmq")`: topics as tables and streams, read as Arrow batches over the Kafka protocol.

The columns and options are those of Spark's Kafka connector, so that one word switches between the
two. A schema given by the user chooses columns: those it does not name are not even decoded.
"""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_chordmq.options import BadOption, Options, read_options
from pyspark_chordmq.reader import BatchReader, FilteringReader, StreamReader

if TYPE_CHECKING:
    from pyspark_chordmq.writer import BatchWriter, StreamWriter

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
ENVELOPE = StructType(
    [
        StructField("messageId", StringType()),
        StructField("timestamp", TimestampType()),
        StructField("topic", StringType()),
        StructField("source", StringType()),
        StructField("correlationId", StringType()),
        StructField("messageType", StringType()),
        StructField("version", StringType()),
        StructField("payload", StringType()),
    ]
)
COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", HEADERS),
        StructField("envelope", ENVELOPE),
    ]
)


class ChordMQSource(DataSource):
    """Topics of ChordMQ, or of any other broker that speaks Kafka's protocol."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(…)`."""
        return "chordmq"

    def schema(self) -> StructType:
        """Return the columns of Spark's Kafka connector, or those that options name."""
        options = read_options(self._given)
        if options.columns:
            return StructType([_known(name) for name in options.columns])
        left_out = {"headers"} if not options.with_headers else set()
        left_out |= {"envelope"} if not options.with_envelope else set()
        return StructType([field for field in COLUMNS.fields if field.name not in left_out])

    def reader(self, schema: StructType) -> BatchReader:
        """Return what reads a topic as a table."""
        options = self._source_options(streaming=False)
        # Spark refuses a reader that takes filters unless a setting of the session allows it.
        kind = FilteringReader if options.push_filters else BatchReader
        return kind(options, _names(schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return what reads a topic as a stream."""
        return StreamReader(self._source_options(streaming=True), _names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        """Return what appends a table to topics."""
        from pyspark_chordmq.writer import BatchWriter

        if overwrite:
            raise BadOption("a topic cannot be overwritten; use mode('append')")
        return BatchWriter(self._sink_options(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        """Return what appends a stream to topics."""
        from pyspark_chordmq.writer import StreamWriter

        return StreamWriter(self._sink_options(schema))

    def _source_options(self, *, streaming: bool) -> Options:
        options = read_options(self._given, streaming=streaming)
        if not (options.topics or options.pattern or options.assigned):
            raise BadOption("say what to read: option subscribe, subscribePattern or assign")
        return options

    def _sink_options(self, schema: StructType) -> Options:
        options = read_options(self._given)
        names = {field.name for field in schema.fields}
        if "value" not in names:
            raise BadOption(f"a sink needs a column `value`; there are {sorted(names)}")
        if "topic" not in names and not options.topic:
            raise BadOption("say where to write: option topic, or a column `topic`")
        for field in schema.fields:
            _check(field)
        return options


def _names(schema: StructType) -> list[str]:
    """Return the columns to make; refuse those that no record has."""
    for field in schema.fields:
        known = _known(field.name)
        if field.dataType != known.dataType:
            raise BadOption(
                f"column `{field.name}` is {known.dataType.simpleString()}, "
                f"not {field.dataType.simpleString()}; cast it after reading"
            )
    return [field.name for field in schema.fields]


def _known(name: str) -> StructField:
    if name not in COLUMNS.names:
        raise BadOption(f"records have no column `{name}`, but {', '.join(COLUMNS.names)}")
    return COLUMNS[name]


def _check(field: StructField) -> None:
    wanted = {
        "key": (BinaryType(), StringType()),
        "value": (BinaryType(), StringType()),
        "topic": (StringType(),),
        "partition": (IntegerType(),),
        "timestamp": (TimestampType(),),
        "headers": (HEADERS,),
    }.get(field.name)
    if wanted is None:
        raise BadOption(f"a sink has no use for column `{field.name}`; drop it before writing")
    plain = field.dataType.simpleString()
    if plain not in {one.simpleString() for one in wanted}:
        names = " or ".join(one.simpleString() for one in wanted)
        raise BadOption(f"column `{field.name}` has to be {names}, not {plain}")
