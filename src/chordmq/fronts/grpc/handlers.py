"""What gRPC clients can call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.topics import USE_DEFAULT
from chordmq.codecs.grpc import messages
from chordmq.errors import ChordMQError, InvalidRequest
from chordmq.fronts.grpc import mapping
from chordmq.fronts.rpc.publishing import Appending, publish, target_of
from chordmq.fronts.rpc.session import Session
from chordmq.fronts.rpc.subscriptions import Subscription, subscribe

OUTCOMES = (Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT, Outcome.RENEW)
"""By their numbers in the schema."""

Unary = Callable[[Session, Any], Awaitable[Any]]
Read = Callable[[], Awaitable[Any]]
"""Returns the client's next request; None after its last."""
Write = Callable[[Any], Awaitable[None]]
"""Sends an answer, when the client has room for it."""
Streaming = Callable[[Session, Read, Write], Awaitable[None]]


async def publish_once(session: Session, request: Any) -> Any:
    """Store messages."""
    rows = mapping.to_messages(request.messages, session.broker.clock.now_ms())
    return mapping.from_published(await publish(session, request.topic, rows))


async def publish_stream(session: Session, read: Read, write: Write) -> None:
    """Store messages for as long as the client sends some; answer in the order of its requests."""
    window = Window(session.front.settings.window_bytes)
    waiting: asyncio.Queue[Appending | None] = asyncio.Queue()

    async def take() -> None:
        while (request := await read()) is not None:
            rows = mapping.to_messages(request.messages, session.broker.clock.now_ms())
            appending = Appending(session, await target_of(session, request.topic), rows)
            waiting.put_nowait(appending)
            await session.charge(produced=appending.size)
            await window.take(appending.size)
        waiting.put_nowait(None)

    async def answer() -> None:
        while (appending := await waiting.get()) is not None:
            await write(mapping.from_published(await appending.published()))
            window.give(appending.size)

    await together(take(), answer())


async def subscribe_stream(session: Session, read: Read, write: Write) -> None:
    """Push messages until the client cancels, and take what it says meanwhile."""
    first = await read()
    if first is None or first.WhichOneof("request") != "wanted":
        raise InvalidRequest("the first request says what is wanted")
    subscription = await subscribe(session, mapping.to_wanted(first.wanted))
    try:
        await write(mapping.from_positions(subscription.positions()))

        async def push() -> None:
            while True:
                await write(mapping.from_page(await subscription.next()))

        async def listen() -> None:
            while (request := await read()) is not None:
                answer = await _heard(subscription, request)
                if answer is not None:
                    await write(answer)

        await together(push(), listen())
    finally:
        session.forget(subscription)


async def _heard(subscription: Subscription, request: Any) -> Any:
    """Do what a subscriber asks, and return the answer, if there is one."""
    answer = messages.SubscribeResponse()
    try:
        match request.WhichOneof("request"):
            case "credit":
                subscription.add_credit(request.credit)
                return None
            case "acknowledge":
                one = request.acknowledge
                if one.outcome not in range(len(OUTCOMES)):
                    raise InvalidRequest(f"{one.outcome} is no outcome")
                outcome = OUTCOMES[one.outcome]
                await subscription.acknowledge(
                    one.topic, one.partition, one.first, one.last, outcome
                )
                answer.acknowledged.CopyFrom(one)
            case "commit":
                await subscription.commit(request.commit.topic, request.commit.position)
                answer.committed.CopyFrom(request.commit)
            case _:
                raise InvalidRequest("give credit, acknowledge or commit")
    except ChordMQError as error:
        answer.refused.CopyFrom(mapping.from_error(error))
    return answer


async def commit(session: Session, request: Any) -> Any:
    """Keep the place of a named index."""
    await session.commit(request.index, request.position.topic, request.position.position)
    return messages.CommitResponse()


async def committed(session: Session, request: Any) -> Any:
    """Return the place of a named index."""
    return messages.CommittedResponse(
        position=await session.committed(request.index, request.topic)
    )


async def create_topic(session: Session, request: Any) -> Any:
    """Make a topic."""
    partitions = request.partitions if request.HasField("partitions") else USE_DEFAULT
    topic = await session.create_topic(request.name, partitions, dict(request.settings))
    return mapping.from_topic(topic, await session.extents(topic))


async def list_topics(session: Session, request: Any) -> Any:
    """Return the topics that the client may see."""
    return messages.ListTopicsResponse(names=session.list_topics())


async def describe_topic(session: Session, request: Any) -> Any:
    """Return a topic."""
    topic = session.describe_topic(request.name)
    return mapping.from_topic(topic, await session.extents(topic))


async def delete_topic(session: Session, request: Any) -> Any:
    """Delete a topic."""
    await session.delete_topic(request.name)
    return messages.DeleteTopicResponse()


UNARY: dict[str, Unary] = {
    "Publish": publish_once,
    "Commit": commit,
    "Committed": committed,
    "CreateTopic": create_topic,
    "ListTopics": list_topics,
    "DescribeTopic": describe_topic,
    "DeleteTopic": delete_topic,
}
STREAMING: dict[str, Streaming] = {
    "PublishStream": publish_stream,
    "Subscribe": subscribe_stream,
}


class Window:
    """How many bytes may be on their way."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._given = asyncio.Event()

    async def take(self, size: int) -> None:
        """Count bytes, and wait until there is room for more."""
        self._free -= size
        while self._free <= 0:
            self._given.clear()
            await self._given.wait()

    def give(self, size: int) -> None:
        """Count bytes back."""
        self._free += size
        self._given.set()


async def together(*works: Any) -> None:
    """Do work side by side until all of it is done or the first fails."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(work)
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
