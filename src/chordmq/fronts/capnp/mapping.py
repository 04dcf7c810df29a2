"""Messages of the Cap'n Proto schema as records, and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.errors import InvalidRequest
from chordmq.fronts.rpc.front import Credentials
from chordmq.fronts.rpc.publishing import Addressed
from chordmq.fronts.rpc.subscriptions import Page, Wanted
from chordmq.records.record import NewRecord

NOW = -1


def to_messages(messages: Iterable[Any], now_ms: int) -> list[Addressed]:
    """Return messages as records to store."""
    found = []
    for message in messages:
        has = message._has
        timestamp = message.timestampMs
        if timestamp < NOW:
            raise InvalidRequest(f"{timestamp} is no time")
        record = NewRecord(
            now_ms if timestamp == NOW else timestamp,
            message.key if has("key") else None,
            message.value if has("value") else None,
            _headers(message.headers) if has("headers") else (),
        )
        found.append(Addressed(record, message.partition))
    return found


def _headers(headers: Iterable[Any]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((one.name, one.value if one._has("value") else None) for one in headers)


def fill_batch(batch: Any, page: Page) -> None:
    """Write a page into a batch."""
    batch.topic = page.topic
    batch.position = page.position
    deliveries = batch.init("deliveries", len(page.rows))
    for number, (partition, record, name, count) in enumerate(page.rows):
        row = deliveries[number]
        row.offset = record.offset
        if name:
            row.name = name
        if count:
            row.deliveries = min(count, 0xFFFF)
        message = row.message
        message.timestampMs = record.timestamp
        message.partition = partition
        if record.key is not None:
            message.key = record.key
        if record.value is not None:
            message.value = record.value
        if record.headers:
            _fill_headers(message, record.headers)
    if page.gaps:
        gaps = batch.init("gaps", len(page.gaps))
        for number, gap in enumerate(page.gaps):
            gaps[number].partition = gap.partition
            gaps[number].wanted = gap.wanted
            gaps[number].next = gap.next


def _fill_headers(message: Any, headers: Sequence[tuple[str, bytes | None]]) -> None:
    rows = message.init("headers", len(headers))
    for number, (name, value) in enumerate(headers):
        rows[number].name = name
        if value is not None:
            rows[number].value = value


def to_wanted(wanted: Any) -> Wanted:
    """Return what a subscriber asks for."""
    index, start = wanted.index, wanted.start
    positions: dict[str, str] = {}
    start_ms = EARLIEST
    match start.which():
        case "latest":
            start_ms = LATEST
        case "timestampMs":
            start_ms = start.timestampMs
            if start_ms < 0:
                raise InvalidRequest(f"{start_ms} is no time")
        case "positions":
            positions = {one.topic: one.position for one in start.positions}
    is_shared = index.which() == "shared"
    if is_shared and not index.shared:
        raise InvalidRequest("a shared index needs the name of its group")
    return Wanted(
        topic=wanted.topic,
        own="" if is_shared else index.own,
        shared=index.shared if is_shared else "",
        start_ms=start_ms,
        positions=positions,
        credit=wanted.credit,
    )


def to_credentials(credentials: Any) -> Credentials:
    """Return how a client says who it is."""
    match credentials.which():
        case "token":
            return Credentials(token=credentials.token)
        case "password":
            return Credentials(user=credentials.password.user, password=credentials.password.secret)
    return Credentials()


def from_positions(positions: Mapping[str, str]) -> list[dict[str, str]]:
    """Return places in log topics."""
    return [{"topic": topic, "position": position} for topic, position in positions.items()]
