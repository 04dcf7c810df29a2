"""Dead letters: what a message says of itself after a queue has given it up."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.queue import REJECTED, Queue
from chordmq.codecs.amqp.content import EXPIRATION, Envelope, with_headers, without

DEATHS = "x-death"


def dead_letter(queue: Queue, entry: Entry, reason: str, now_ms: int) -> Envelope:
    """Return the message as it goes to the dead-letter exchange."""
    rules, envelope = queue.rules, entry.envelope
    exchange = rules.dead_letter_exchange
    assert exchange is not None
    properties = envelope.properties
    headers = dict(properties.headers)
    death: dict[str, Any] = {
        "reason": reason,
        "queue": queue.name,
        "time": datetime.fromtimestamp(now_ms // 1000, UTC),
        "exchange": envelope.exchange,
        "routing-keys": [envelope.key, *properties.keys],
    }
    if properties.expiration is not None:
        death["original-expiration"] = properties.expiration
    headers[DEATHS] = _with(death, deaths(entry))
    headers.setdefault("x-first-death-reason", reason)
    headers.setdefault("x-first-death-queue", queue.name)
    headers.setdefault("x-first-death-exchange", envelope.exchange)
    if rules.dead_letter_key is not None:
        headers.pop("CC", None)
    key = envelope.key if rules.dead_letter_key is None else rules.dead_letter_key
    left = with_headers(without(properties, EXPIRATION), headers)
    return Envelope(envelope.vhost, exchange, key, left)


def _with(death: dict[str, Any], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the deaths with the newest first; one like an earlier one is counted with it."""
    count = 1
    others = []
    for one in before:
        if (one.get("queue"), one.get("reason")) == (death["queue"], death["reason"]):
            count += _count(one)
            death = one | {"time": death["time"]}
        else:
            others.append(one)
    return [death | {"count": count}, *others]


def _count(death: dict[str, Any]) -> int:
    count = death.get("count")
    return count if isinstance(count, int) else 1


def deaths(entry: Entry) -> list[dict[str, Any]]:
    """Return how often a message has died, where and why; newest first."""
    found = entry.envelope.properties.headers.get(DEATHS)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def goes_in_circles(entry: Entry, reason: str, targets: Iterable[str]) -> set[str]:
    """Return the targets that a message has died in before without anybody refusing it.

    It would go round for ever.
    """
    before = deaths(entry)
    if reason == REJECTED or any(one.get("reason") == REJECTED for one in before):
        return set()
    return {name for name in targets if any(one.get("queue") == name for one in before)}
