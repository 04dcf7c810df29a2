"""A producer of the plain length-prefixed protocol: each frame is a message."""

from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.framed.messages import Hello, acknowledged, error
from chordmq.errors import ChordMQError, PolicyViolation
from chordmq.fronts.framed.front import GROUP_PREFIX, FramedFront, Visitor
from chordmq.fronts.stream import Stream
from chordmq.records.record import NewRecord


class Producer:
    """One producer; the next frames are read when those before are safe, so that it feels the log.

    All frames of one read become one batch, together with those of other clients in this turn.
    """

    def __init__(
        self, front: FramedFront, stream: Stream, hello: Hello, topic: str, visitor: Visitor
    ) -> None:
        self._front = front
        self._stream = stream
        self._topic = topic
        self._visitor = visitor
        self._acknowledges = hello.ack == "each"
        self._next_partition = 0

    async def serve(self, frames: list[bytes]) -> None:
        """Append what comes until the client leaves."""
        while frames or (frames := await self._stream.frames()):
            try:
                offset = await self._append(frames)
            except ChordMQError as fault:
                if not self._acknowledges:
                    raise  # without answers to put it into, an error ends the connection
                self._stream.write(error(str(fault)) * len(frames))
            else:
                self._front.messages_in += len(frames)
                if self._acknowledges:
                    self._stream.write(acknowledged(offset, len(frames)))
                    await self._stream.room()
            self._visitor.meter.produced += sum(map(len, frames))
            await self._visitor.meter.pause()
            frames = []

    async def _append(self, frames: list[bytes]) -> int:
        partitions = self._front.broker.topics.get(self._topic).partitions
        self._visitor.check(Operation.WRITE, Kind.TOPIC, self._topic)
        self._refuse_overflow(len(frames))
        partition = partitions[self._next_partition % len(partitions)]
        self._next_partition += 1
        now_ms = self._front.listener.clock.now_ms()
        records = [NewRecord(now_ms, None, frame) for frame in frames]
        return await self._front.appends.append(partition, records)

    def _refuse_overflow(self, count: int) -> None:
        """Raise PolicyViolation when the queue holds too much that nobody has processed."""
        limit = self._front.settings.queue_max
        if limit:
            group = GROUP_PREFIX + self._topic
            waiting = sum(c.lag for c in self._front.broker.cursors.of_group(group))
            if waiting + count > limit:
                raise PolicyViolation(f"the queue is full: {waiting} messages wait in it")
