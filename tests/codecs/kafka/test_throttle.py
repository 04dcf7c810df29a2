"""The throttle time stamped into finished responses."""

from importlib import import_module

import pytest

from chordmq.codecs.kafka import produce
from chordmq.codecs.kafka.apis import APIS
from chordmq.codecs.kafka.messages.produce import ProduceResponse
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.codecs.kafka.throttle import stamp

NOT_STAMPED = {"ApiVersions"}
"""Its place moves with the length of the list before it, and nobody is refused there."""


@pytest.mark.parametrize("api_key", APIS)
def test_every_version_with_the_field_carries_the_time(api_key: int) -> None:
    """C2: throttle_time_ms is where each version of each API has it."""
    api = APIS[api_key]
    module = import_module(f"chordmq.codecs.kafka.messages.{api.module}")
    response = getattr(module, f"{api.name}Response")
    for version in api.versions:
        plain = response()
        body = encode(plain, version)
        before = bytes(body)
        stamp([body], api_key, version, 1234)
        if bytes(body) != before:
            assert decode(response, version, bytes(body)).throttle_time_ms == 1234
        elif hasattr(plain, "throttle_time_ms") and api.name not in NOT_STAMPED:
            plain.throttle_time_ms = 1234
            assert encode(plain, version) == body, f"version {version} was not stamped"


@pytest.mark.parametrize("version", APIS[0].versions)
def test_the_hand_written_answer_to_produce_carries_the_time(version: int) -> None:
    """C2: Produce has the field behind its rows."""
    body = produce.write_response([produce.PartitionAnswer("t", bytes(16), 0)], version)
    stamp([body], 0, version, 1234)
    assert decode(ProduceResponse, version, bytes(body)).throttle_time_ms == 1234
