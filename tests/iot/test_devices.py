"""The names of devices' messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import InvalidRequest
from chordmq.iot import devices
from chordmq.iot.devices import PLACE, SUBJECTS, Address, Sender, check_id, parse
from chordmq.iot.envelope import MessageType

LEVELS = st.text(
    st.characters(exclude_characters="/+#", exclude_categories=("Cc", "Cs")),
    min_size=1,
    max_size=40,
)


@given(LEVELS, st.sampled_from(SUBJECTS), LEVELS)
def test_every_address_is_found_again_in_its_name(
    device: str, subject: devices.Subject, name: str
) -> None:
    """E2: the hierarchy of topics, there and back."""
    address = Address(device, subject, name if PLACE in subject.path else "")
    assert parse(str(address)) == address


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_none(text: str) -> None:
    """E2: what is not of a device is let be."""
    for name in (text, f"iotsphere/devices/{text}"):
        address = parse(name)
        assert address is None or str(address) == name


def test_each_subject_says_its_type_and_who_sends_it() -> None:
    """E1, E2: message types belong to topics."""
    address = parse("iotsphere/devices/d7/telemetry/temperature")
    assert address is not None
    assert (address.subject.type, address.subject.sender) == (MessageType.EVENT, Sender.DEVICE)
    request = parse("iotsphere/devices/d7/commands/reboot/request")
    assert request is not None
    assert (request.subject.type, request.subject.sender) == (MessageType.COMMAND, Sender.NODE)
    assert request.name == "reboot"


def test_measures_may_have_levels_of_their_own() -> None:
    address = parse("iotsphere/devices/d7/telemetry/room/1/temperature")
    assert address == Address("d7", devices.TELEMETRY, "room/1/temperature")


@pytest.mark.parametrize("device", ["", "a/b", "a+", "#", "x" * 129, "a\nb"])
def test_ids_that_no_device_can_have_are_refused(device: str) -> None:
    with pytest.raises(InvalidRequest):
        check_id(device)
