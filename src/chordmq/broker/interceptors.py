"""Hands what is published and delivered to the interceptors that the operator has named."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from chordmq.broker.extensions import Interceptor
from chordmq.broker.topic import INTERNAL_TOPICS
from chordmq.errors import ChordMQError, PolicyViolation
from chordmq.logs import get_logger
from chordmq.records.batch import COMPRESSION_MASK, TRANSACTIONAL, BatchHeader, read_header, verify
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, Record, build_batch, read_records

log = get_logger(__name__)

Records = TypeVar("Records", list[NewRecord], list[Record])


class Interceptors:
    """The named interceptors, asked in their order; one that fails refuses what it was given."""

    def __init__(self, interceptors: Mapping[str, Interceptor]) -> None:
        self._interceptors = dict(interceptors)

    def publish(self, topic: str, data: memoryview) -> memoryview:
        """Return the batch to store; the very same bytes if nobody changes a record."""
        if topic in INTERNAL_TOPICS:
            return data
        header = read_header(data)
        if header.size != len(data) or header.is_control:
            return data  # refused later, by those who know how to say it
        verify(data, 0, header)
        given = [NewRecord(*record[1:]) for record in read_records(data)]
        records = list(given)
        for name, one in self._interceptors.items():
            records = _asked(name, one.on_publish, topic, records)
        return data if records == given else _rebuilt(header, records)

    def deliver(self, topic: str, partition: int, records: list[Record]) -> list[Record]:
        """Return the records to hand out."""
        if topic in INTERNAL_TOPICS or not records:
            return records
        for name, one in self._interceptors.items():
            records = _asked(name, one.on_deliver, topic, partition, records)
        return records


def _asked(name: str, method: Callable[..., Records], *where: Any) -> Records:
    """Return what an interceptor makes of records; `where` ends with them."""
    *place, given = where
    try:
        records = list(method(*place, list(given)))
    except ChordMQError:
        raise
    except Exception as error:
        log.exception("interceptor failed", interceptor=name)
        raise PolicyViolation(f"interceptor {name} failed: {type(error).__name__}") from error
    if len(records) != len(given):
        # Producers count their records, and queues wait for an answer to each.
        raise PolicyViolation(f"interceptor {name} returns another number of records")
    return records


def _rebuilt(header: BatchHeader, records: list[NewRecord]) -> memoryview:
    return memoryview(
        build_batch(
            records,
            compression=Compression(header.attributes & COMPRESSION_MASK),
            flags=header.attributes & TRANSACTIONAL,
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            sequence=header.base_sequence,
        )
    )
