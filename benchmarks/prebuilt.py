"""A source for Spark that costs nothing: one Arrow batch, built once, sent again and again.

What Spark takes for its rows is the part of a query that no source in Python can make faster.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

ROWS_PER_BATCH = 8000


class Prebuilt(DataSource):
    """Rows of the columns that the benchmark reads; options `rows`, `tasks` and `value`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(…)`."""
        return "prebuilt"

    def schema(self) -> str:
        """Return the columns of the benchmark's queries."""
        return "value binary, offset long, timestamp timestamp"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what sends the rows."""
        options = self.options
        return PrebuiltReader(
            int(options["rows"]), int(options["tasks"]), options["value"].encode()
        )


class PrebuiltReader(DataSourceReader):
    """Sends the same batch from every task."""

    def __init__(self, rows: int, tasks: int, value: bytes) -> None:
        self._rows = rows
        self._tasks = tasks
        self._value = value

    def partitions(self) -> Sequence[InputPartition]:
        """Share the rows among tasks."""
        return [InputPartition(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batch as often as it takes, and the rest of it."""
        numbers = pa.array(range(ROWS_PER_BATCH), pa.int64())
        columns = {
            "value": pa.array([self._value] * ROWS_PER_BATCH, pa.binary()),
            "offset": numbers,
            "timestamp": numbers.cast(pa.timestamp("us", tz="UTC")),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        whole, rest = divmod(partition.value, ROWS_PER_BATCH)
        for _ in range(whole):
            yield batch
        if rest:
            yield batch.slice(0, rest)
