"""The broker that the interop tests talk to: a node of ours, or any other as an oracle.

`CHORDMQ_TEST_BOOTSTRAP=127.0.0.1:9092 pytest tests/interop` runs the same tests against the broker
at that address, Apache Kafka for example: a test that fails there expects the wrong thing.
"""

import os
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from chordmq.fronts.admin.console import FOLDER
from tests.interop.program import installed
from tests.wire import Wire

CreateTopic = Callable[..., str]

EXTERNAL = "CHORDMQ_TEST_BOOTSTRAP"
WAIT_MS = 60_000
WINDOW = (1280, 800)

expect.set_options(timeout=WAIT_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here as using a third-party client."""
    for item in items:
        if "/interop/" in item.path.as_posix():
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Give the address of the broker under test."""
    external = os.environ.get(EXTERNAL)
    return external or str(request.getfixturevalue("node").bootstrap)


@pytest.fixture(scope="session")
def address(bootstrap: str) -> tuple[str, int]:
    """Give the address of the broker under test as host and port."""
    host, port = bootstrap.rsplit(":", 1)
    return host, int(port)


@pytest.fixture
def wire(address: tuple[str, int]) -> Iterator[Wire]:
    """Give a raw connection to the broker."""
    with Wire(address) as connection:
        yield connection


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """Give librdkafka's admin client."""
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def create_topic(admin: AdminClient, address: tuple[str, int], name: str) -> CreateTopic:
    """Give a function that creates a topic of this test's own and returns its name."""

    def create(*, partitions: int = 1, suffix: str = "", **settings: str) -> str:
        config = {setting.replace("_", "."): value for setting, value in settings.items()}
        wanted = NewTopic(name + suffix, partitions, 1, config=config)
        admin.create_topics([wanted])[wanted.topic].result(60)
        with Wire(address) as wire:
            # Apache Kafka answers before it leads the new partitions; a retry asks again.
            while wire.fetch(wanted.topic, 0).error_code is not ErrorCode.none:
                pass
        return str(wanted.topic)

    return create


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give a Chromium that the tests of a module share, for a console that is built."""
    assert (FOLDER / "index.html").exists(), "the console is not built; run: make console"
    options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed("chromium"), args=options)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Give a fresh tab; whatever goes wrong in its scripts fails the test."""
    width, height = WINDOW
    context = browser.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda told: faults.extend(_faults(told)))
    yield page
    context.close()
    assert faults == []


def _faults(told: ConsoleMessage) -> list[str]:
    # Refusals are answers: pages show them, and the browser notes them as well.
    is_fault = told.type == "error" and "Failed to load resource" not in told.text
    return [told.text] if is_fault else []
