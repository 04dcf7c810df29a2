"""A consumer of the provider's protocol: commits its own index, or acknowledges a shared one."""

from collections.abc import Iterator

from tests.faults.subscribers.subscriber import Wanted
from tests.fronts.provider.client import Client, message

CREDIT = 200


class Provider:
    """With an index of its own it commits now and then."""

    def __init__(self, wanted: Wanted) -> None:
        self._is_shared = wanted.kind == "shared"
        self._client = Client(("127.0.0.1", wanted.ports["provider"]))
        self._client.socket.settimeout(None)
        self._client.subscribe(wanted.topic, group=wanted.name, index=wanted.kind, credit=CREDIT)

    def messages(self) -> Iterator[tuple[int, bytes]]:
        while True:
            pushed = self._client.push()
            yield pushed.id, message(pushed).value or b""

    def processed(self, token: int) -> None:
        self._client.acknowledge(token)
        if not self._is_shared and token % CREDIT == CREDIT - 1:
            assert self._client.commit(token >> 48, (token & (1 << 48) - 1) + 1).status == 0

    def close(self) -> None:
        self._client.close()
