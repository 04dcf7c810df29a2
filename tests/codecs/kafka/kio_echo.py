"""Reads messages with kio and writes them back, in a process of its own since bad input kills it.

One message per input line: `<api key> <request|response> <version> <hex>`; the answer is its hex.
"""

import io
import sys

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer


def echo(line: str) -> str:
    """Return the hex of what kio writes for the message it read."""
    key, side, version, wire = line.split(" ")
    load = load_request_schema if side == "request" else load_response_schema
    schema = load(int(key), int(version))
    data = bytes.fromhex(wire)
    entity, size = entity_reader(schema)(data, 0)
    if size != len(data):
        return f"read {size} of {len(data)} bytes"
    out = io.BytesIO()
    entity_writer(schema)(out, entity)
    return out.getvalue().hex()


if __name__ == "__main__":
    for line in sys.stdin:
        print(echo(line.rstrip("\n")))
