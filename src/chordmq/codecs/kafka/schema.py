"""Any Kafka message to bytes and back, by functions compiled from its class at first use."""

import struct
from typing import Any, TypeVar

from chordmq.codecs.cursor import Buffer
from chordmq.codecs.kafka.decoder import Decoder, compile_decoder
from chordmq.codecs.kafka.encoder import Encoder, compile_encoder
from chordmq.errors import DecodeError

Message = TypeVar("Message")

_decoders: dict[tuple[type[Any], int], Decoder] = {}
_encoders: dict[tuple[type[Any], int], Encoder] = {}


def decode(cls: type[Message], version: int, data: Buffer, position: int = 0) -> Message:
    """Read the message at `position`; a view's `records` stay views."""
    decoder = _decoders.get((cls, version))
    try:
        if decoder is None:
            decoder = _decoder(cls, version)
        message: Message = decoder(data, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} v{version}: {error}") from error
    return message


def encode(message: Any, version: int) -> bytearray:
    """Return the message's bytes; a value that the version cannot carry is our bug: ValueError."""
    cls = type(message)
    encoder = _encoders.get((cls, version))
    try:
        if encoder is None:
            encoder = _encoder(cls, version)
        return encoder(message)
    except (struct.error, AttributeError, TypeError) as error:
        raise ValueError(f"{cls.__name__} v{version}: {error}") from error


def _decoder(cls: type[Any], version: int) -> Decoder:
    if version not in cls.versions:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    return _decoders.setdefault((cls, version), compile_decoder(cls, version))


def _encoder(cls: type[Any], version: int) -> Encoder:
    if version not in cls.versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    return _encoders.setdefault((cls, version), compile_encoder(cls, version))
