"""Encrypts the values of records: AES-256-GCM with data keys, which a key of the owner wraps.

A sealed record has four headers more: `enc.alg` (A256GCM), `enc.kid` (which key wraps the data
key), `enc.dek` (the wrapped data key) and `enc.nonce`. Topic, key and the headers that stand before
these are authenticated with the value, so a record cannot be changed, given another key or moved
to another topic. Headers behind them were added on the way. The key of a record stays readable,
because partitions and compaction go by it, and so does a null value, which deletes a key.
"""

import os
from collections import OrderedDict
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.encryption.errors import NotEncrypted, Tampered
from chordmq.encryption.keyring import KEY_SIZE, KeyProvider
from chordmq.records.record import Headers, NewRecord, Record

ALGORITHM = b"A256GCM"
ALG, KID, DEK, NONCE = "enc.alg", "enc.kid", "enc.dek", "enc.nonce"
NAMES = (ALG, KID, DEK, NONCE)
NONCE_SIZE = 12
UNWRAPPED_MAX = 1_000
_NULL = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeSettings:
    """How long a data key is used, and what is accepted."""

    records_max: int = 2**20
    """Records per data key; random nonces allow far more (2**32)."""
    age_max_s: float = 3600.0
    accepts_plain: bool = False
    """Let records pass that are not encrypted, while a topic changes over."""


@dataclass(slots=True)
class _DataKey:
    """A data key in use for one topic."""

    cipher: AESGCM
    key_id: str
    headers: Headers
    """The first three of the four headers; they are the same for all its records."""
    ends_s: float
    left: int


class Envelope:
    """Seals records for their topic and opens them again."""

    def __init__(
        self,
        keys: KeyProvider,
        clock: Clock,
        settings: EnvelopeSettings | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._settings = settings or EnvelopeSettings()
        self._random = random_bytes
        self._in_use: dict[str, _DataKey] = {}
        self._unwrapped: OrderedDict[tuple[str, bytes], AESGCM] = OrderedDict()

    def seal(self, topic: str, record: NewRecord) -> NewRecord:
        """Return the record with its value encrypted."""
        if record.value is None:
            return record
        data_key = self._data_key(topic)
        data_key.left -= 1
        nonce = self._random(NONCE_SIZE)
        bound = _bound(topic, record.key, record.headers)
        value = data_key.cipher.encrypt(nonce, record.value, bound)
        headers = (*record.headers, *data_key.headers, (NONCE, nonce))
        return NewRecord(record.timestamp, record.key, value, headers)

    def open(self, topic: str, record: Record) -> Record:
        """Return the record as it was before `seal`, or raise an EncryptionError."""
        if record.value is None:
            return record
        at = _place(record.headers)
        if at is None:
            if self._settings.accepts_plain:
                return record
            raise NotEncrypted("it is not encrypted")
        key_id, wrapped, nonce = _facts(record.headers[at : at + len(NAMES)])
        before, after = record.headers[:at], record.headers[at + len(NAMES) :]
        cipher = self._cipher(key_id, wrapped)
        try:
            value = cipher.decrypt(nonce, record.value, _bound(topic, record.key, before))
        except (InvalidTag, ValueError):
            raise Tampered(
                "its value, key, headers or topic are not those that were encrypted"
            ) from None
        return record._replace(value=value, headers=before + after)

    def _data_key(self, topic: str) -> _DataKey:
        known = self._in_use.get(topic)
        now_s = self._clock.monotonic_s()
        if known and known.left > 0 and now_s < known.ends_s and known.key_id == self._keys.current:
            return known
        secret = self._random(KEY_SIZE)
        wrapped, key_id = self._keys.wrap(secret), self._keys.current
        headers: Headers = ((ALG, ALGORITHM), (KID, key_id.encode()), (DEK, wrapped))
        settings = self._settings
        data_key = _DataKey(
            AESGCM(secret), key_id, headers, now_s + settings.age_max_s, settings.records_max
        )
        self._in_use[topic] = data_key
        return data_key

    def _cipher(self, key_id: str, wrapped: bytes) -> AESGCM:
        known = self._unwrapped.get((key_id, wrapped))
        if known is None:
            known = AESGCM(self._keys.unwrap(key_id, wrapped))
            self._unwrapped[key_id, wrapped] = known
            if len(self._unwrapped) > UNWRAPPED_MAX:
                self._unwrapped.popitem(last=False)
        return known


def is_sealed(headers: Headers) -> bool:
    """Say whether a record with these headers is encrypted."""
    return _place(headers) is not None


def _place(headers: Headers) -> int | None:
    """Return where the four headers begin; the last ones count, if a record was sealed twice."""
    for at in range(len(headers) - 1, -1, -1):
        if headers[at][0] == ALG:
            return at
    if any(name in NAMES for name, _ in headers):
        raise Tampered(f"the header {ALG} is missing")
    return None


def _facts(headers: Headers) -> tuple[str, bytes, bytes]:
    """Return key id, wrapped data key and nonce."""
    if tuple(name for name, _ in headers) != NAMES:
        raise Tampered("the headers of its encryption are not complete")
    (_, algorithm), (_, key_id), (_, wrapped), (_, nonce) = headers
    if algorithm != ALGORITHM:
        raise Tampered("it names an algorithm that is not ours")
    if key_id is None or wrapped is None or nonce is None or len(nonce) != NONCE_SIZE:
        raise Tampered("the headers of its encryption make no sense")
    return key_id.decode(errors="replace"), wrapped, nonce


def _bound(topic: str, key: bytes | None, headers: Headers) -> bytes:
    """Return what is authenticated beside the value; sizes go first, so that nothing can shift."""
    parts: list[bytes | None] = [ALGORITHM, topic.encode(), key]
    for name, value in headers:
        parts += [name.encode(), value]
    return b"".join(
        _NULL if part is None else len(part).to_bytes(4, "big") + part for part in parts
    )
