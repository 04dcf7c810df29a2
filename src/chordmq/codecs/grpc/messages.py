"""The messages of schema/chordmq.proto, from its description; needs the extra `chordmq[grpc]`."""

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

FILE = Path(__file__).parent / "chordmq.textproto"
SERVICE = "chordmq.v1.ChordMQ"


def load() -> Any:
    """Return the schema's file, known from now on to all who ask for its symbols."""
    text = FILE.read_text(encoding="utf-8")
    file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindFileByName(file.name)


_FILE = load()


def message(name: str) -> Any:
    """Return the class of a message."""
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


METHODS = {one.name: one for one in _FILE.services_by_name["ChordMQ"].methods}

Message = message("Message")
PublishResponse = message("PublishResponse")
Refusal = message("Refusal")
SubscribeResponse = message("SubscribeResponse")
Batch = message("Batch")
Topic = message("Topic")
CommitResponse = message("CommitResponse")
CommittedResponse = message("CommittedResponse")
ListTopicsResponse = message("ListTopicsResponse")
DeleteTopicResponse = message("DeleteTopicResponse")
