"""Checks the envelopes of records to publish, makes those that are missing, puts bad ones aside."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.principal import ANONYMOUS
from chordmq.client.partitioner import partition_for_key
from chordmq.errors import InvalidEnvelope
from chordmq.fronts.admin.call import Call
from chordmq.iot import envelope
from chordmq.records.dead_letter import REASON_HEADER, REASON_LENGTH_MAX, TOPIC_HEADER
from chordmq.records.record import NewRecord

DEAD_LETTER_SUFFIX = ".dlq"
SOURCE = "http"


class PublishQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Whether values must be messages in an envelope, and what becomes of those that are not."""

    envelope: (
        Annotated[
            Literal["check", "wrap"],
            Meta(
                description="`check` wants a good envelope, `wrap` makes one where there is none."
            ),
        ]
        | None
    ) = None
    bad: Annotated[
        Literal["refuse", "dead_letter"],
        Meta(description="What becomes of a bad envelope: the request is refused, or it goes to "
             "`<topic>.dlq` with the reason."),
    ] = "refuse"  # fmt: skip


class Buried(msgspec.Struct, frozen=True):
    """Where a record with a bad envelope came to lie."""

    topic: str
    partition: int
    offset: int
    reason: str


def enveloped(
    call: Call, query: PublishQuery, topic: str, records: Sequence[NewRecord]
) -> tuple[list[NewRecord], dict[int, InvalidEnvelope]]:
    """Return the records with their envelopes, and by number what is wrong with which.

    Raise InvalidEnvelope for the first bad one if the request is to be refused.
    """
    checked, faults = [], {}
    for number, record in enumerate(records):
        try:
            checked.append(record._replace(value=_value(call, query, topic, record)))
        except InvalidEnvelope as fault:
            if query.bad == "refuse":
                raise InvalidEnvelope(f"record {number}: {fault}") from None
            checked.append(record)
            faults[number] = fault
    return checked, faults


async def bury(
    call: Call, topic: str, records: Mapping[int, tuple[NewRecord, InvalidEnvelope]]
) -> dict[int, Buried]:
    """Append records to the topic's dead letters; answer, by number, where they are and why."""
    name = topic + DEAD_LETTER_SUFFIX
    call.check(Operation.WRITE, Kind.TOPIC, name)
    letters = await call.broker.topics.ensure(name)
    places = []
    for number, (record, fault) in records.items():
        why = str(fault)[:REASON_LENGTH_MAX]
        origin = ((TOPIC_HEADER, topic.encode()), (REASON_HEADER, why.encode()))
        letter = record._replace(headers=(*record.headers, *origin))
        index = partition_for_key(record.key or b"", len(letters.partitions))
        stored = call.shared.appends.append(letters.partitions[index], [letter])
        places.append((number, index, stored, why))
    await asyncio.gather(*(stored for _, _, stored, _ in places))
    return {
        number: Buried(name, index, stored.result(), why) for number, index, stored, why in places
    }


def _value(call: Call, query: PublishQuery, topic: str, record: NewRecord) -> bytes:
    if query.envelope == "check":
        envelope.read(record.value or b"")
        return record.value or b""
    origin = envelope.Origin(
        message_id=uuid.uuid4().hex,
        now_ms=record.timestamp,
        topic=topic,
        source=SOURCE if call.principal is ANONYMOUS else call.principal.name,
    )
    return envelope.enveloped(record.value, origin)
