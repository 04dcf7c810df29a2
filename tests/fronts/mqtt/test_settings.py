"""Where MQTT listens, with and without TLS."""

import pytest

from chordmq.fronts.certificates import TlsSettings
from chordmq.fronts.mqtt.settings import MqttSettings, listeners


@pytest.mark.parametrize(
    ("certificate", "plain", "ports"),
    [
        ("", True, {"mqtt": 1883}),
        ("", False, {"mqtt": 1883}),
        ("x.pem", True, {"mqtt": 1883, "mqtts": 8883}),
        ("x.pem", False, {"mqtts": 8883}),
    ],
)
def test_listeners(certificate: str, plain: bool, ports: dict[str, int]) -> None:
    found = listeners(MqttSettings(tls=TlsSettings(certificate=certificate), plain=plain))
    assert {name: one.port for name, one in found.items()} == ports
    assert all(one.tls.is_on == (name == "mqtts") for name, one in found.items())
