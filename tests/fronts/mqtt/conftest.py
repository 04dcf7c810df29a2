"""Clients of a running node, closed after each test."""

from collections.abc import Callable, Iterator

import pytest

from tests.fronts.mqtt.client import Client
from tests.running_node import RunningNode

Connect = Callable[..., Client]


@pytest.fixture
def open_client(node: RunningNode) -> Iterator[Connect]:
    """Give a function that opens a connection and sends nothing."""
    clients: list[Client] = []

    def open_client(version: int = 5, to: RunningNode | None = None) -> Client:
        clients.append(Client((to or node).mqtt_address, version))
        return clients[-1]

    yield open_client
    for client in clients:
        client.cut()


@pytest.fixture
def connect(open_client: Connect) -> Connect:
    """Give a function that opens a connection and lets the client in."""

    def connect(
        client_id: str = "", version: int = 5, to: RunningNode | None = None, **more: object
    ) -> Client:
        client = open_client(version, to)
        assert client.connect(client_id, **more).code == 0  # type: ignore[arg-type]
        return client

    return connect
