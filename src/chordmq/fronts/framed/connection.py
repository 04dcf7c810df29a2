"""Drives one client of the plain length-prefixed protocol: who it is, then what it came for."""

import asyncio
from functools import partial

from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.principal import ANONYMOUS, Principal
from chordmq.codecs.framed.messages import Hello, Role, error, read_hello
from chordmq.errors import (
    AuthenticationFailed,
    ChordMQError,
    DecodeError,
    TopicExists,
    UnknownTopic,
)
from chordmq.fronts.framed.consumers import Broadcast, Queue
from chordmq.fronts.framed.front import FramedFront
from chordmq.fronts.framed.measures import framed_measures
from chordmq.fronts.framed.producers import Producer
from chordmq.fronts.framed.settings import FramedSettings
from chordmq.fronts.opening import Connect, Opening
from chordmq.fronts.stream import Stream

HELLO_TIMEOUT_S = 10.0


def open_framed(opening: Opening) -> Connect:
    """Begin to serve clients."""
    settings = opening.listener.settings
    assert isinstance(settings, FramedSettings)
    front = FramedFront(opening.broker, opening.listener, settings, opening.authenticator)
    opening.metrics.add(lambda: framed_measures(front))
    return lambda: Stream(opening.listener, partial(serve, front))


async def serve(front: FramedFront, stream: Stream) -> None:
    """Serve one client until it leaves; what is wrong with its request is said in a frame."""
    try:
        await _serve(front, stream)
    except TimeoutError:
        stream.write(error("the first frame did not come in time"))
    except (ChordMQError, DecodeError) as fault:
        stream.write(error(str(fault)))


async def _serve(front: FramedFront, stream: Stream) -> None:
    async with asyncio.timeout(HELLO_TIMEOUT_S):
        frames = await stream.frames()
    if not frames:
        return
    hello = read_hello(frames[0])
    visitor = front.visitor(await _login(front, stream, hello), stream.host, hello.name)
    topic = hello.topic or front.settings.topic
    is_producer = hello.role is Role.PRODUCER
    visitor.check(Operation.WRITE if is_producer else Operation.READ, Kind.TOPIC, topic)
    await _ensure(front, topic)
    if is_producer:
        producer = Producer(front, stream, hello, topic, visitor)
        await visitor.meter.working(producer.serve(frames[1:]))
        return
    group = front.group_of(hello, topic)
    if group:
        visitor.check(Operation.READ, Kind.GROUP, group)
    with front.registered(stream, topic, group):
        mode = hello.mode or front.settings.delivery_mode
        consumer = Queue if mode == "queue" else Broadcast
        await consumer(front, stream, hello, topic, visitor).serve(frames[1:])


async def _login(front: FramedFront, stream: Stream, hello: Hello) -> Principal:
    """Return who the client is; raise AuthenticationFailed if it has to say and does not."""
    authenticator = front.authenticator
    if authenticator is None:
        return ANONYMOUS
    if hello.token:
        login = await authenticator.check_token(hello.token, stream.host, "FRAMED")
        stream.live_by(login, authenticator.logins)
        return login.principal
    principal = stream.certified()
    if principal is ANONYMOUS and authenticator.is_required:
        raise AuthenticationFailed("log in with token=<token> in the first frame")
    return principal


async def _ensure(front: FramedFront, topic: str) -> None:
    """Make the topic with one partition, so that messages keep their order, if it is not there."""
    topics = front.broker.topics
    if topics.find(topic) is None:
        if not front.broker.settings.auto_create_topics_enable:
            raise UnknownTopic(f"no topic {topic}; create it first")
        try:
            await topics.create(topic, 1)
        except TopicExists:  # somebody else asked for it a moment earlier
            return
