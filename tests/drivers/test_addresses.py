"""Addresses of brokers, and the drivers that they name."""

import pytest

from chordmq.drivers.addresses import open_driver
from chordmq.drivers.errors import UnknownDriver
from chordmq.drivers.log import LogDriver, read_address


def test_an_address_names_its_driver() -> None:
    assert isinstance(open_driver("kafka://127.0.0.1:9092"), LogDriver)


@pytest.mark.parametrize(
    "address", ["nats://127.0.0.1", "127.0.0.1:9092", "kafka://h:1?colour=red"]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(UnknownDriver):
        open_driver(address)


def test_several_brokers_and_a_login_stand_in_one_address() -> None:
    """A password may have any character, percent-encoded."""
    hosts, connection = read_address("kafka://al%40ce:p%2Fw@a:1,b:2?tls=true&mechanism=PLAIN")
    assert hosts == "a:1,b:2"
    security = connection.security
    assert (security.user, security.password) == ("al@ce", "p/w")
    assert (security.tls, security.mechanism) == (True, "PLAIN")
