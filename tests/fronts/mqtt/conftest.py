"""Clients of a running node, closed after each test."""

from collections.abc import Callable, Iterator

import pytest

from tests.fronts.mqtt.client import Client
from tests.running_node import RunningNode

Connect = Callable[..., Client]


@pytest.fixture(autouse=True)
def _no_connection_stays() -> Iterator[None]:
    """Close every connection that a test has opened."""
    yield
    while Client.opened:
        Client.opened.pop().close()


@pytest.fixture
def open_client(request: pytest.FixtureRequest) -> Connect:
    """Give a function that opens a connection and sends nothing."""

    def open_client(version: int = 5, to: RunningNode | None = None) -> Client:
        node: RunningNode = to or request.getfixturevalue("node")
        return Client(node.mqtt_address, version)

    return open_client


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
