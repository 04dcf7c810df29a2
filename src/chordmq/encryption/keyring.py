"""Key-encryption keys: the newest wraps new data keys, the older ones still unwrap theirs.

As text a ring is JSON, oldest key first:
`{"keys": [{"id": "k1-9f3b27a0", "created_ms": 1763164800000, "key": "<32 bytes in base64>"}]}`.
"""

import base64
import os
from dataclasses import field
from typing import Protocol

import msgspec
from cryptography.hazmat.primitives.keywrap import (
    InvalidUnwrap,
    aes_key_unwrap,
    aes_key_wrap,
)

from chordmq.dataclass import dataclass
from chordmq.encryption.errors import InvalidKeys, Tampered, UnknownKey

KEY_SIZE = 32
KEYS_MAX = 10_000


class KeyProvider(Protocol):
    """Who keeps the key-encryption keys: a file, the environment, a key management service."""

    @property
    def current(self) -> str:
        """Return the id of the key that wraps new data keys."""
        ...

    def wrap(self, data_key: bytes) -> bytes:
        """Return the data key, encrypted with the current key."""
        ...

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        """Return the data key, or raise UnknownKey or Tampered."""
        ...


@dataclass(frozen=True, slots=True)
class WrappingKey:
    """One key-encryption key; prints without the key itself."""

    id: str
    created_ms: int
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of one owner, oldest first."""

    keys: tuple[WrappingKey, ...]

    @property
    def current(self) -> str:
        """Return the id of the newest key."""
        return self.keys[-1].id

    def wrap(self, data_key: bytes) -> bytes:
        """Return the data key, wrapped by the newest key (RFC 3394)."""
        return aes_key_wrap(self.keys[-1].key, data_key)

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        """Return the data key that one of the keys has wrapped."""
        for one in self.keys:
            if one.id == key_id:
                try:
                    return aes_key_unwrap(one.key, wrapped)
                except (InvalidUnwrap, ValueError):
                    raise Tampered(
                        f"its data key was not wrapped by the key {key_id!r} that we have"
                    ) from None
        known = ", ".join(one.id for one in self.keys)
        raise UnknownKey(f"it was encrypted with the key {key_id!r}; we have {known}")

    def rotated(self, now_ms: int) -> "KeyRing":
        """Return the ring with one more key, which is used from now on."""
        name = f"k{len(self.keys) + 1}-{os.urandom(4).hex()}"
        return KeyRing((*self.keys, WrappingKey(name, now_ms, os.urandom(KEY_SIZE))))

    def text(self) -> bytes:
        """Return the ring as it is stored."""
        rows = [
            {
                "id": one.id,
                "created_ms": one.created_ms,
                "key": base64.b64encode(one.key).decode(),
            }
            for one in self.keys
        ]
        return msgspec.json.format(msgspec.json.encode({"keys": rows}), indent=2) + b"\n"


def new_ring(now_ms: int) -> KeyRing:
    """Return a ring with one key."""
    return KeyRing(()).rotated(now_ms)


def read_ring(text: bytes | str) -> KeyRing:
    """Return the ring that a text holds, or raise InvalidKeys, which shows nothing of the text."""
    try:
        rows = msgspec.json.decode(text, type=dict[str, list[WrappingKey]])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InvalidKeys("this is no file of keys; `chordmq keys create` makes one") from None
    keys = tuple(rows.get("keys", ()))
    if not 0 < len(keys) <= KEYS_MAX:
        raise InvalidKeys("there are no keys in it")
    if any(len(one.key) != KEY_SIZE or not one.id for one in keys):
        raise InvalidKeys(f"a key has an id and {KEY_SIZE} bytes")
    if len({one.id for one in keys}) < len(keys):
        raise InvalidKeys("two keys have the same id")
    return KeyRing(keys)
