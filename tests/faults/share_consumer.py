"""A share consumer without buffers, as a program: says what it got, answered and had confirmed.

Arguments: host, port, group, topic. Each line it prints is a word, a time and two offsets:
`got` when records arrive, `asked` before it accepts them, `kept` when that is confirmed.
"""

import socket
import sys
import time
import uuid
from typing import Any

from chordmq.codecs.kafka.header import request_head
from chordmq.codecs.kafka.messages import share_acknowledge as acknowledge
from chordmq.codecs.kafka.messages import share_fetch as fetch
from chordmq.codecs.kafka.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from chordmq.codecs.kafka.schema import decode, encode

RETRY_S = 0.05
HEARTBEAT_S = 0.5
TIMEOUT_S = 5.0
ACCEPT = 1


class Refused(Exception):
    """The broker has answered with an error; everything begins anew."""


class Connection:
    """One connection; its end is the end of the share session."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, TIMEOUT_S)
        self._correlation_id = 0

    def ask(self, request: Any, answer: type[Any]) -> Any:
        """Send a request and return its answer."""
        version = request.versions[-1]
        self._correlation_id += 1
        head = request_head(request.api_key, version, self._correlation_id, "share")
        frame = bytes(head) + bytes(encode(request, version))
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(self._exactly(4), "big")
        found = decode(answer, version, self._exactly(size)[5:])
        if found.error_code:
            raise Refused(f"{answer.__name__}: {found.error_code} {found.error_message}")
        return found

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the broker hung up")
            data += chunk
        return data


def say(word: str, first: int, last: int) -> None:
    """Print what happened."""
    print(word, time.monotonic_ns(), first, last, flush=True)


def consume(connection: Connection, group: str, topic: str) -> None:
    """Join, then fetch and accept until something fails."""
    member = str(uuid.uuid4())
    epoch, session, beaten_s = 0, 0, 0.0
    places: list[tuple[bytes, int]] = []
    while True:
        if time.monotonic() - beaten_s >= HEARTBEAT_S:
            beat = ShareGroupHeartbeatRequest(group, member, epoch, None, [topic])
            answer = connection.ask(beat, ShareGroupHeartbeatResponse)
            epoch, beaten_s = answer.member_epoch, time.monotonic()
            places = [
                (entry.topic_id, index)
                for entry in answer.assignment.topic_partitions
                for index in entry.partitions
            ]
        session = _round(connection, (group, member), session, places)


def _round(
    connection: Connection,
    identity: tuple[str, str],
    session: int,
    places: list[tuple[bytes, int]],
) -> int:
    """Fetch once and accept what comes; return the next epoch of the session."""
    topics = [fetch.FetchTopic(id_, [fetch.FetchPartition(index)]) for id_, index in places]
    wanted = fetch.ShareFetchRequest(
        *identity, session, max_wait_ms=100, min_bytes=1, max_records=20, share_acquire_mode=1,
        topics=topics,
    )  # fmt: skip
    answer = connection.ask(wanted, fetch.ShareFetchResponse)
    taken = [
        (topic.topic_id, row.partition_index, part.first_offset, part.last_offset)
        for topic in answer.responses
        for row in topic.partitions
        for part in row.acquired_records
    ]
    for _, _, first, last in taken:
        say("got", first, last)
    if not taken:
        return session + 1
    request = acknowledge.ShareAcknowledgeRequest(*identity, session + 1)
    for topic_id, index, first, last in taken:
        batch = acknowledge.AcknowledgementBatch(first, last, [ACCEPT])
        rows = [acknowledge.AcknowledgePartition(index, [batch])]
        request.topics.append(acknowledge.AcknowledgeTopic(topic_id, rows))
        say("asked", first, last)
    confirmed = connection.ask(request, acknowledge.ShareAcknowledgeResponse)
    codes = [row.error_code for topic in confirmed.responses for row in topic.partitions]
    if any(codes):
        raise Refused(f"acknowledgements: {codes}")
    for _, _, first, last in taken:
        say("kept", first, last)
    return session + 2


def main() -> None:
    """Consume for ever, through every failure."""
    host, port, group, topic = sys.argv[1:]
    while True:
        try:
            connection = Connection((host, int(port)))
        except OSError:
            time.sleep(RETRY_S)
            continue
        try:
            consume(connection, group, topic)
        except (OSError, Refused) as error:
            print("failed", time.monotonic_ns(), error, file=sys.stderr, flush=True)
            time.sleep(RETRY_S)
        finally:
            connection.close()


if __name__ == "__main__":
    main()
