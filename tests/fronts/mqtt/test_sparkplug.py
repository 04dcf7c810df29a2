"""Sparkplug births are kept for who comes later, and told to who is there."""

import pytest

from chordmq.fronts.mqtt.sparkplug import certificate_of
from tests.fronts.mqtt.conftest import Connect


@pytest.mark.parametrize("qos", [0, 1])
def test_births_are_kept_and_told(connect: Connect, name: str, qos: int) -> None:
    """E3: a host application that starts later finds which nodes and devices there are."""
    edge, early = connect(), connect()
    early.subscribe(f"$sparkplug/certificates/spBv1.0/{name}/#")
    edge.publish(f"spBv1.0/{name}/NBIRTH/n1", b"old", qos)
    edge.publish(f"spBv1.0/{name}/NBIRTH/n1", b"born", qos)
    edge.publish(f"spBv1.0/{name}/NDATA/n1", b"data", qos)
    edge.publish(f"spBv1.0/{name}/DBIRTH/n1/d1", b"device", 1)
    told = [early.message().payload for _ in range(3)]
    assert told == [b"old", b"born", b"device"]
    late = connect()
    late.subscribe(f"$sparkplug/certificates/spBv1.0/{name}/#")
    found = {(one.topic, one.payload, one.retain) for one in (late.message(), late.message())}
    prefix = f"$sparkplug/certificates/spBv1.0/{name}"
    assert found == {
        (f"{prefix}/NBIRTH/n1", b"born", True),
        (f"{prefix}/DBIRTH/n1/d1", b"device", True),
    }
    assert late.is_quiet()


@pytest.mark.parametrize("name", ["spBv1.0/g/NDATA/n", "spBv1.0/g/NBIRTH", "x/g/NBIRTH/n", "a"])
def test_other_names_are_no_births(name: str) -> None:
    assert certificate_of(name) == ""
