"""Writes what nodes know of schema/chordmq.proto as text, so that they need no compiler."""

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schema" / "chordmq.proto"
DESCRIPTOR = ROOT / "src" / "chordmq" / "codecs" / "grpc" / "chordmq.textproto"
NOTE = "# Made from schema/chordmq.proto by scripts/generate_descriptor.py.\n"


def described() -> str:
    """Return the description of the schema."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "descriptor"
        options = [f"-I{SCHEMA.parent}", f"--descriptor_set_out={out}", SCHEMA.name]
        if protoc.main(["protoc", *options]) != 0:
            raise SystemExit("the schema is not right")
        (file,) = FileDescriptorSet.FromString(out.read_bytes()).file
    drop_json_names(file.message_type)
    text: str = text_format.MessageToString(file, use_short_repeated_primitives=True)
    return NOTE + text


def drop_json_names(messages: Iterable[Any]) -> None:
    """Leave out what follows from the names of fields, as generated code does."""
    for message in messages:
        for field in message.field:
            field.ClearField("json_name")
        drop_json_names(message.nested_type)


def main() -> None:
    """Write the description, or check that it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    text = described()
    if not parser.parse_args().check:
        DESCRIPTOR.write_text(text)
    elif DESCRIPTOR.read_text() != text:
        sys.exit("the description is old; run scripts/generate_descriptor.py")


if __name__ == "__main__":
    main()
