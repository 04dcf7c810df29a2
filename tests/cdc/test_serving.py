"""Health and numbers of a source."""

from httpx import ASGITransport, AsyncClient

from chordmq.cdc.change import Position, Snapshot
from chordmq.cdc.measures import Measures, State
from chordmq.cdc.serving import application
from chordmq.clock import ManualClock


def asking(measures: Measures) -> AsyncClient:
    transport = ASGITransport(application(measures))
    return AsyncClient(transport=transport, base_url="http://source")


async def test_health_follows_what_the_source_does() -> None:
    clock = ManualClock()
    measures = Measures("shop", clock)
    client = asking(measures)
    measures.stored(Position("0/1", snapshot=Snapshot(["a.b"], rows=5)), 5, 5, 100)
    shown = await client.get("/health")
    assert (shown.status_code, shown.json()["state"]) == (200, State.SNAPSHOT)
    assert shown.json()["snapshot_rows"] == 5
    measures.failed("no route to host")
    shown = await client.get("/health")
    assert (shown.status_code, shown.json()["failure"]) == (503, "no route to host")
    measures.stored(Position("0/2"), 1, 1, 10)
    assert (await client.get("/health")).json()["state"] == State.STREAMING


def test_a_source_that_stores_nothing_of_what_waits_is_not_healthy() -> None:
    clock = ManualClock()
    measures = Measures("shop", clock)
    measures.stored(Position("0/1", time_us=clock.now_ms() * 1000), 1, 1, 1)
    measures.queued = 5
    before = measures.summary()
    clock.advance(90_000)
    after = measures.summary()
    assert (before["healthy"], after["healthy"]) == (True, False)
    assert after["lag"] == {"seconds": 90.0}


async def test_metrics_are_in_the_form_of_prometheus() -> None:
    """E8: lag and counters, by source."""
    measures = Measures("shop", ManualClock())
    measures.stored(Position("0/1"), 3, 4, 100)
    measures.lag = {"slot_retained_bytes": 42.0}
    text = (await asking(measures).get("/metrics")).text
    assert 'chordmq_cdc_changes_total{source="shop"} 3.0' in text
    assert 'chordmq_cdc_slot_retained_bytes{source="shop"} 42.0' in text
    assert 'chordmq_cdc_up{source="shop"} 1.0' in text
