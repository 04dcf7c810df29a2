"""Messages of the gRPC schema as records, and back."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from chordmq.broker.bounds import Extent
from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.partition import Partition
from chordmq.broker.topic import Topic
from chordmq.codecs.grpc import messages
from chordmq.errors import AuthenticationFailed, ChordMQError, InvalidRequest
from chordmq.fronts.rpc.front import Credentials
from chordmq.fronts.rpc.publishing import ANY_PARTITION, Addressed, Published
from chordmq.fronts.rpc.subscriptions import Page, Wanted
from chordmq.records.record import NewRecord

BEARER, BASIC = "bearer", "basic"
LATEST_NUMBER = 1


def to_messages(found: Iterable[Any], now_ms: int) -> list[Addressed]:
    """Return messages as records to store."""
    rows = []
    for message in found:
        has = message.HasField
        timestamp = message.timestamp_ms if has("timestamp_ms") else now_ms
        if timestamp < 0:
            raise InvalidRequest(f"{timestamp} is no time")
        headers = message.headers
        record = NewRecord(
            timestamp,
            message.key if has("key") else None,
            message.value if has("value") else None,
            _headers(headers) if headers else (),
        )
        rows.append(Addressed(record, message.partition if has("partition") else ANY_PARTITION))
    return rows


def _headers(headers: Iterable[Any]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((one.name, one.value if one.HasField("value") else None) for one in headers)


def from_page(page: Page) -> Any:
    """Return a page as an answer."""
    answer = messages.SubscribeResponse()
    batch = answer.batch
    batch.topic, batch.position = page.topic, page.position
    add = batch.deliveries.add
    for partition, record, name, deliveries in page.rows:
        row = add(offset=record.offset, name=name, deliveries=deliveries)
        message = row.message
        message.timestamp_ms = record.timestamp
        message.partition = partition
        if record.key is not None:
            message.key = record.key
        if record.value is not None:
            message.value = record.value
        for header, value in record.headers:
            message.headers.add(name=header, value=value)
    for gap in page.gaps:
        batch.gaps.add(partition=gap.partition, wanted=gap.wanted, next=gap.next)
    return answer


def from_published(published: Published) -> Any:
    """Return where messages came to lie."""
    answer = messages.PublishResponse(partitions=published.partitions, offsets=published.offsets)
    if published.failure is not None:
        answer.failure.CopyFrom(from_error(published.failure))
    return answer


def from_error(error: ChordMQError) -> Any:
    """Return what is wrong with a request."""
    return messages.Refusal(error=type(error).__name__, message=str(error))


def to_wanted(wanted: Any) -> Wanted:
    """Return what a subscriber asks for."""
    if wanted.WhichOneof("index") == "shared" and not wanted.shared:
        raise InvalidRequest("a shared index needs the name of its group")
    if wanted.start_timestamp_ms < 0:
        raise InvalidRequest(f"{wanted.start_timestamp_ms} is no time")
    start_ms = LATEST if wanted.start == LATEST_NUMBER else EARLIEST
    return Wanted(
        topic=wanted.topic,
        own=wanted.own,
        shared=wanted.shared,
        start_ms=wanted.start_timestamp_ms or start_ms,
        positions={one.topic: one.position for one in wanted.positions},
        credit=wanted.credit,
    )


def from_positions(positions: Mapping[str, str]) -> Any:
    """Return where each log topic is read from."""
    answer = messages.SubscribeResponse()
    answer.subscribed.SetInParent()
    for topic, position in positions.items():
        answer.subscribed.positions.add(topic=topic, position=position)
    return answer


def from_topic(topic: Topic, extents: Mapping[Partition, Extent]) -> Any:
    """Return a topic as it is described."""
    answer = messages.Topic(name=topic.name, settings=topic.overrides)
    for one, extent in extents.items():
        answer.partitions.add(
            partition=one.index, start_offset=extent.start, end_offset=extent.watermark
        )
    return answer


def to_credentials(authorization: str) -> Credentials:
    """Return how a client says who it is; raise AuthenticationFailed for what is neither way."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == BEARER:
        return Credentials(token=value.strip())
    if scheme.lower() == BASIC:
        try:
            user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            colon, user, password = "", "", ""
        if not (colon and user):
            raise AuthenticationFailed("the credentials are not user:password in base64")
        return Credentials(user=user, password=password)
    if authorization:
        raise AuthenticationFailed("log in with Bearer or Basic")
    return Credentials()
