"""Sessions that end: unmodified clients, and our own, prove themselves again on one connection."""

import asyncio
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer as Librdkafka

from chordmq.client.connection import ConnectionSettings
from chordmq.client.errors import BrokerRefused, CannotConnect
from chordmq.client.producer import Producer
from chordmq.client.security import Security
from chordmq.clock import SystemClock
from tests.interop.fortress import PASSWORD, Fortress
from tests.interop.test_security import java, java_files, librdkafka
from tests.waiting import PATIENCE_S

SESSION_MS = 1000
SECONDS = 3
AGAIN_MIN = 2
"""How often clients are seen to log in again; who comes too late opens another connection."""


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    fortress = Fortress(
        tmp_path_factory.mktemp("sessions"), **{"auth.session_max_ms": str(SESSION_MS)}
    )
    try:
        fortress.node.start()
        yield fortress
    finally:
        fortress.node.close()


def counted(fortress: Fortress, pattern: str) -> float:
    """Return the sum of the metrics that match."""
    page = httpx.get(f"{fortress.node.http}/metrics", auth=("admin", PASSWORD), timeout=60).text
    return sum(float(line.split()[-1]) for line in page.splitlines() if re.match(pattern, line))


def logins(fortress: Fortress) -> float:
    pattern = 'chordmq_logins_total{mechanism="(SCRAM|OAUTH).*outcome="succeeded"'
    return counted(fortress, pattern)


def connections(fortress: Fortress) -> float:
    return counted(fortress, 'chordmq_connections_accepted_total{listener="kafka"')


class Renewals:
    """Counts the logins that were not the first of their connection, from now on."""

    def __init__(self, fortress: Fortress) -> None:
        self._fortress = fortress
        self._before = self._now()
        self._deadline = time.monotonic() + PATIENCE_S

    def _now(self) -> float:
        return logins(self._fortress) - connections(self._fortress)

    def are_enough(self) -> bool:
        found = self._now() - self._before
        assert time.monotonic() < self._deadline, f"logged in again {found} times"
        return found >= AGAIN_MIN


def test_the_java_client_stays_connected(fortress: Fortress, name: str, tmp_path: Path) -> None:
    """C10: session lifetime and re-authentication (KIP-368)."""
    java_files(fortress, tmp_path, name)
    file = tmp_path / "scram-512"
    text = f"{file.read_text()}check.seconds={SECONDS}\n"
    renewals = Renewals(fortress)
    while not renewals.are_enough():
        file.write_text(text.replace(name, f"t-{uuid.uuid4().hex[:12]}"))
        assert java([file]) == {"scram-512": "ok"}


def test_librdkafka_stays_connected(fortress: Fortress, name: str) -> None:
    """C10: it logs in again in time, and no message is lost."""
    renewals = Renewals(fortress)
    failures: list[object] = []
    producer = Librdkafka(librdkafka(fortress, "SCRAM-SHA-256"))
    while not renewals.are_enough():
        producer.produce(name, b"x", on_delivery=lambda error, _: failures.append(error))
        producer.poll(0.05)
    assert producer.flush(60) == 0
    assert set(failures) == {None}


def settings(fortress: Fortress, **security: Any) -> ConnectionSettings:
    given: dict[str, Any] = {"tls_ca": fortress.ca, "user": "alice", "password": PASSWORD}
    return ConnectionSettings(security=Security(**{**given, **security}))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"])
async def test_our_client_logs_in_by_every_mechanism(
    fortress: Fortress, name: str, mechanism: str
) -> None:
    """C8, C10: and is told why when it does not."""
    token = fortress.issuer.token(SystemClock().now_ms() / 1000)
    who = {"token": token, "user": ""} if mechanism == "OAUTHBEARER" else {}
    good = settings(fortress, mechanism=mechanism, **who)
    async with Producer(fortress.bootstrap, connection=good) as producer:
        await producer.send(name, b"x")
    wrong = {"token": token + "x", "user": ""} if who else {"user": "mallory", "password": "wrong"}
    bad = settings(fortress, mechanism=mechanism, **wrong)
    with pytest.raises(BrokerRefused, match="SASL_AUTHENTICATION_FAILED"):
        async with Producer(fortress.bootstrap, connection=bad):
            pass


async def test_our_client_logs_in_again_between_its_requests(fortress: Fortress, name: str) -> None:
    """C10: on the same connections, while records flow."""
    renewals = Renewals(fortress)
    async with Producer(fortress.bootstrap, connection=settings(fortress)) as producer:
        while not await asyncio.to_thread(renewals.are_enough):
            await asyncio.gather(*(producer.send(name, b"x") for _ in range(20)))


async def test_our_client_checks_whom_it_talks_to(fortress: Fortress) -> None:
    """C8: an unknown authority, a wrong name, no TLS where TLS is spoken."""
    for bootstrap, changes in [
        (fortress.bootstrap, {"tls_ca": fortress.other_ca}),
        (fortress.bootstrap, {"tls_ca": ""}),
        (fortress.bootstrap, {"tls_certificate": fortress.ca}),
        (fortress.bootstrap.replace("localhost", "127.0.0.2"), {}),
    ]:
        with pytest.raises(CannotConnect):
            async with Producer(bootstrap, connection=settings(fortress, **changes)):
                pass


async def test_our_client_is_known_by_its_certificate(fortress: Fortress, name: str) -> None:
    """A10, C8: mutual TLS without a password."""
    files = {"tls_certificate": fortress.carol, "tls_key": fortress.carol_key}
    carol = settings(fortress, user="", password="", **files)
    async with Producer(fortress.bootstrap, connection=carol) as producer:
        await producer.send(name, b"x")


def test_security_prints_without_its_secrets() -> None:
    """E13: an SDK's settings may be logged."""
    shown = repr(ConnectionSettings(security=Security(user="u", password="pw1", token="tk1")))
    assert "pw1" not in shown
    assert "tk1" not in shown
