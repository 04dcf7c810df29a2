"""A consumer of the framed protocol: broadcast with a name, or a queue."""

from collections.abc import Iterator

from tests.faults.subscribers.subscriber import Wanted
from tests.fronts.framed.client import Client


class Framed:
    """Acknowledges in order, which is all that the protocol has."""

    def __init__(self, wanted: Wanted) -> None:
        mode = "queue" if wanted.kind == "shared" else "broadcast"
        hello = f"CONSUMER topic={wanted.topic} name={wanted.name} mode={mode} start=earliest"
        self._client = Client(("127.0.0.1", wanted.ports["framed"]), hello)
        self._client.socket.settimeout(None)

    def messages(self) -> Iterator[tuple[None, bytes]]:
        while True:
            yield None, self._client.receive()

    def processed(self, token: None) -> None:
        self._client.send(b"ACK")

    def close(self) -> None:
        self._client.close()
