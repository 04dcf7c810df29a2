"""E12: the JavaScript SDK in Node and in a real Chromium, with a page that another site serves."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.browser import SDK, chromium, sdk_site
from chordmq.client.consumer import Consumer, ConsumerSettings
from chordmq.client.producer import Producer, ProducerSettings
from chordmq.clock import SystemClock
from chordmq.encryption.envelope import Envelope
from chordmq.encryption.keyring import KeyRing, new_ring
from chordmq.records.record import NewRecord
from tests.interop.program import ROOT, built, installed, run
from tests.running_node import RunningNode

pytestmark = pytest.mark.interop

TIMEOUT_S = 200.0
SCENARIOS = """async ({url, name, ring}) => {
  const sdk = await import("/src/index.js")
  const scenarios = await import("/test/scenarios.js")
  const told = {}
  for (const [at, [title, scenario]] of Object.entries(scenarios).entries()) {
    const makeStore = (store) => new sdk.IndexedDbStore(store)
    told[title] = await scenario(sdk, {url, name: `${name}-${at}`, ring, makeStore})
      .then(() => "passed", (error) => `${error.stack}`)
  }
  return told
}"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node that lets pages of other sites in."""
    node = RunningNode(tmp_path_factory.mktemp("node"), {"websocket.origins": "*"})
    try:
        node.start()
        yield node
    finally:
        node.close()


@pytest.fixture(scope="module")
def ring() -> KeyRing:
    """Give keys that all tests share."""
    return new_ring(0)


def _url(node: RunningNode) -> str:
    host, port = node.http_address
    return f"ws://{host}:{port}/ws"


def test_the_sdk_keeps_its_promises_in_node(gateway: RunningNode, ring: KeyRing, name: str) -> None:
    """E12: publish, subscribe, resume, requests, offline queue, shadows, encryption, errors."""
    environment = {
        **os.environ, "CHORDMQ_URL": _url(gateway), "CHORDMQ_NAME": name,
        "CHORDMQ_KEYS": ring.text().decode(),
    }  # fmt: skip
    tests = sorted(map(str, (SDK / "test").glob("*.test.js")))
    done = subprocess.run(
        [installed("node"), "--test", "--test-force-exit", *tests], env=environment, cwd=SDK,
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_the_sdk_keeps_its_promises_in_chromium(
    gateway: RunningNode, ring: KeyRing, name: str
) -> None:
    """E12: the same in a browser, with IndexedDB in place of a file."""
    facts = {"url": _url(gateway), "name": name, "ring": ring.text().decode()}
    with sdk_site() as site, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{site}/test/page.html")
        told: dict[str, str] = page.evaluate(SCENARIOS, facts)
    assert len(told) >= 8
    assert {title: fate for title, fate in told.items() if fate != "passed"} == {}


async def test_python_and_javascript_read_what_the_other_has_encrypted(
    gateway: RunningNode, ring: KeyRing, name: str
) -> None:
    """E12, E13: one format of encryption, over Kafka's protocol and over WebSocket."""
    envelope = Envelope(ring, SystemClock())
    topic = f"{name}.secrets"
    settings = ProducerSettings(encryption=envelope)
    async with Producer(gateway.bootstrap, settings) as producer:
        record = NewRecord(0, b"s1", b"von Python", (("kind", b"text"),))
        await (await producer.enqueue_record(topic, record))
    program = Path(__file__).parent / "js" / "encrypted.mjs"
    facts = {"url": _url(gateway), "name": f"{name}/secrets/s1", "ring": ring.text().decode()}
    command = [installed("node"), str(program), str(SDK), json.dumps(facts)]
    assert await asyncio.to_thread(run, command) == b"von Python\n"
    async with Consumer(gateway.bootstrap, ConsumerSettings(encryption=envelope)) as consumer:
        await consumer.assign_topic(topic)
        values: list[bytes | None] = []
        while len(values) < 2:
            chunk = await consumer.poll(60.0)
            assert chunk is not None
            values += [one.value for one in chunk.records]
    assert values == [b"von Python", "aus JavaScript ü".encode()]


def test_the_types_fit_what_programs_write() -> None:
    """E12: a program in TypeScript that uses everything passes its compiler."""
    compiler = built(ROOT / "console" / "node_modules" / ".bin" / "tsc")
    command = [installed("node"), str(compiler), "--noEmit", "--strict", "--target", "es2022"]
    command += ["--module", "nodenext", "--lib", "es2023,dom", "--types", "", "test/usage.ts"]
    done = subprocess.run(command, cwd=SDK, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
