"""The messages of the gRPC front, made from the description of its schema."""

from chordmq.codecs.grpc.messages import FILE, METHODS, Message, message
from chordmq.fronts.grpc.handlers import STREAMING, UNARY
from scripts.generate_descriptor import described


def test_the_description_is_that_of_the_schema() -> None:
    assert FILE.read_text() == described()


def test_every_method_of_the_schema_is_served() -> None:
    assert set(METHODS) == set(UNARY) | set(STREAMING)


def test_what_is_missing_is_not_what_is_empty() -> None:
    missing = Message.FromString(Message().SerializeToString())
    empty = Message.FromString(Message(key=b"", value=b"").SerializeToString())
    assert not missing.HasField("key")
    assert empty.HasField("key")
    assert empty.HasField("value")
    assert message("Topic").DESCRIPTOR.full_name == "chordmq.v1.Topic"
