"""The chain that E14 is measured on: devices, node and browser, at a rate for any machine."""

from pathlib import Path

import pytest

from benchmarks import iot_chain
from benchmarks.peers import start_chordmq
from benchmarks.report import CEILINGS, FLOORS
from benchmarks.session import Profile, Session

pytestmark = pytest.mark.interop

PROFILE = Profile(
    rounds=1, produce_s=1, bytes_max=1, java_bytes=1, consume_messages=1, latency_s=1,
    connections=1, recovery_bytes=1, spark_rows=1, pipeline_messages=1,
)  # fmt: skip


def test_every_message_of_a_device_reaches_the_browser_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E11, E14: MQTT with QoS 1 to a page in Chromium; the case itself counts them by number."""
    monkeypatch.setattr(iot_chain, "RATE", 1_000)
    monkeypatch.setattr(iot_chain, "LENGTH_S", 1.0)
    peer = start_chordmq(tmp_path)
    try:
        samples = iot_chain.iot_chain(Session(peer=peer, ours=True, profile=PROFILE))
    finally:
        peer.kill()
    assert {one.name for one in samples} >= {"iot_chain", "iot_chain_latency.mean"}
    assert FLOORS["iot_chain"] == 10_000
    assert CEILINGS["iot_chain_latency.mean"] == 50.0
