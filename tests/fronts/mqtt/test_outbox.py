"""What goes to one client when it is slow, or takes little at a time."""

import pytest

from chordmq.codecs.mqtt.properties import Properties
from tests.fronts.mqtt.client import packet
from tests.fronts.mqtt.conftest import Connect


def test_a_read_full_of_messages_passes_a_small_window(connect: Connect, name: str) -> None:
    """E3: many messages of one read, and a client that takes two at a time."""
    reader = connect(properties=Properties(receive_maximum=2))
    writer = connect(version=4)
    reader.subscribe(f"{name}/a", qos=1)
    writer.publish(f"{name}/a", b"first", 1)
    one = b"\0" + bytes((len(name) + 2,)) + f"{name}/a".encode()
    writer.send(
        b"".join(packet(0x32, one + n.to_bytes(2, "big") + b"%d" % n) for n in range(10, 500))
    )
    assert reader.messages(491) == [b"first", *(b"%d" % n for n in range(10, 500))]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("room", [1000, 7])
def test_names_of_one_read_keep_their_order(
    connect: Connect, name: str, version: int, room: int
) -> None:
    """E3: messages of many names and kinds, whatever of them goes out together."""
    limit = Properties(receive_maximum=room) if version == 5 else Properties()
    reader, writer = connect(version=version, properties=limit), connect(version=4)
    reader.subscribe(f"{name}/#", qos=1)
    data, wanted = b"", []
    for number in range(200):
        topic = f"{name}/d/{number % 50}".encode()
        body = len(topic).to_bytes(2, "big") + topic
        if number % 20 == 10:  # without an answer
            data += packet(0x30, body + b"%d" % number)
        else:
            retained = number % 20 == 15
            identifier = (number + 1).to_bytes(2, "big")
            data += packet(0x32 | retained, body + identifier + b"%d" % number)
        wanted.append((topic.decode(), b"%d" % number))
    writer.send(data)
    found = [reader.message() for _ in wanted]
    assert [(one.topic, one.payload) for one in found] == wanted


@pytest.mark.slow
def test_numbers_in_use_are_not_given_again(connect: Connect, name: str) -> None:
    """E3: MQTT-2.2.1-4: over the end of the range, one message stays unanswered."""
    reader, writer = connect(version=4), connect(version=4)
    reader.subscribe(f"{name}/a", qos=1)
    writer.publish(f"{name}/a", b"stays", 1)
    stays = reader.message(answers=False)
    sent, found = 0, set()
    while sent < 66_000:
        for _ in range(500):
            writer.post(f"{name}/a", b"x", 1)
            writer._id %= 60_000
        sent += 500
        for _ in range(500):
            found.add(reader.message().id)
            writer.expect(4)
    assert stays.id not in found
    assert len(found) == 65_534


def test_a_client_that_answers_in_any_order_gets_everything(connect: Connect, name: str) -> None:
    reader, writer = connect(version=4), connect()
    reader.subscribe(f"{name}/a", qos=1)
    for number in range(40):
        writer.publish(f"{name}/a", b"%d" % number, 1)
    found = [reader.message(answers=False) for _ in range(40)]
    for message in reversed(found):
        reader.send(packet(0x40, message.id.to_bytes(2, "big")))
    writer.publish(f"{name}/a", b"last", 1)
    assert reader.messages(1) == [b"last"]
