"""Tests of the codec against two other ones: kio and kafka-python."""

import subprocess
import sys
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
import pytest

from chordmq.codecs.kafka.messages.api_versions import ApiVersionsResponse
from chordmq.codecs.kafka.schema import decode, encode
from tests.codecs.kafka.arbitrary import every_version, label, sample

VARIANTS = (1, 50)
"""Where the numbers in the samples start."""

KAFKA_PYTHON = [
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
]


def test_kio_reads_our_bytes_and_writes_the_same() -> None:
    """C1: kio, another codec for Kafka 4.3, agrees on every message and version."""
    ours = [
        (cls, version, encode(message, version).hex())
        for cls, version in every_version()
        for message in (cls(), *(sample(cls, version, first) for first in VARIANTS))
    ]
    lines = [f"{cls.api_key} {_side(cls)} {version} {wire}\n" for cls, version, wire in ours]
    command = [sys.executable, "-m", "tests.codecs.kafka.kio_echo"]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=True)
    theirs = done.stdout.splitlines()
    assert len(theirs) == len(ours)
    assert [
        (cls.__name__, version, wire, answer)
        for (cls, version, wire), answer in zip(ours, theirs, strict=True)
        if wire != answer
    ] == []


def _side(cls: type[Any]) -> str:
    return "request" if cls.__name__.endswith("Request") else "response"


def _theirs(cls: type[Any]) -> Any:
    found = [getattr(package, cls.__name__, None) for package in KAFKA_PYTHON]
    return next((theirs for theirs in found if theirs is not None), None)


@pytest.mark.parametrize(
    "pair",
    [(cls, v) for cls, v in every_version() if (t := _theirs(cls)) and v <= t.max_version],
    ids=label,
)
def test_kafka_python_reads_our_bytes_and_we_read_its_own(pair: tuple[type[Any], int]) -> None:
    """C1: kafka-python, which is a client of ours, agrees on the messages that it knows."""
    cls, version = pair
    message = sample(cls, version)
    if cls is ApiVersionsResponse:
        message.error_code = 0  # kafka-python reads an error as version 0, as brokers send it
    read = _theirs(cls).decode(bytes(encode(message, version)), version=version)
    read.with_header()  # without one it is not encoded again
    assert decode(cls, version, bytes(read.encode())) == message
