"""The audit trail as a chain: each record carries the hash of the one before, heads are signed.

A record is canonical JSON of `{seq, ts, who, host, act, obj, result, prev}`, and its hash is the
SHA-256 of these bytes. A bare chain does not show that its end was cut off, or that all of it was
written anew. So the hash of the newest record is signed (Ed25519) every now and then: this head
becomes a record of the chain itself, and is kept in other places as well.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from chordmq.dataclass import dataclass

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

TEXT_LENGTH_MAX = 256
"""Longest text that a record takes from a client."""
GENESIS = "0" * 64
"""Stands for the hash of the record before the first."""
HEAD = "head"
"""The act of a record that signs the one before it; its result is the signature."""
OK = "ok"

_CONTEXT = b"chordmq audit head\n"
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class AuditBroken(Exception):
    """The chain is not what was written; `seq` is the first record that shows it."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"record {seq}: {reason}")
        self.seq = seq
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that must be known later: who did what, to what, and how it ended."""

    who: str
    host: str
    act: str
    obj: str
    result: str = OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record of the chain."""

    seq: int
    """Its number, which is its offset in the log as well."""
    ts: int
    who: str
    host: str
    act: str
    obj: str
    result: str
    prev: str
    """The hash of the record before."""

    @property
    def text(self) -> bytes:
        """Return the bytes that are stored and hashed."""
        return _canonical(asdict(self))


@dataclass(frozen=True, slots=True)
class Tip:
    """The newest record of a chain, as far as the next one needs it."""

    seq: int = -1
    digest: str = GENESIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The signed hash of one record: nobody without the key can put another one there."""

    seq: int
    ts: int
    digest: str
    signature: str

    @property
    def signed_text(self) -> bytes:
        """Return the bytes that the signature is for."""
        return _CONTEXT + _canonical({"seq": self.seq, "ts": self.ts, "digest": self.digest})


class Stored(NamedTuple):
    """A record as a log holds it: where, under which hash, and its bytes."""

    offset: int
    digest: str
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a look at the whole chain has shown."""

    records: int
    heads: int
    """Signatures that were checked, and are good."""
    unsigned: int
    """Newest records that no head vouches for yet."""
    tip: Tip
    fault: AuditBroken | None = None


def follow(tip: Tip, event: Event, now_ms: int) -> tuple[bytes, Tip]:
    """Return the record of an event that follows the newest, and the tip that it makes."""
    seq = tip.seq + 1
    # One is written for each login: field by field, it takes a third of `asdict`'s time.
    text = _canonical(
        {
            "act": event.act[:TEXT_LENGTH_MAX],
            "host": event.host[:TEXT_LENGTH_MAX],
            "obj": event.obj[:TEXT_LENGTH_MAX],
            "prev": tip.digest,
            "result": event.result[:TEXT_LENGTH_MAX],
            "seq": seq,
            "ts": now_ms,
            "who": event.who[:TEXT_LENGTH_MAX],
        }
    )
    return text, Tip(seq, digest_of(text))


def sign(tip: Tip, key: "Ed25519PrivateKey", now_ms: int) -> Head:
    """Return the signed head of a chain."""
    head = Head(seq=tip.seq, ts=now_ms, digest=tip.digest, signature="")
    signature = key.sign(head.signed_text).hex()
    return Head(seq=head.seq, ts=head.ts, digest=head.digest, signature=signature)


def head_event(head: Head) -> Event:
    """Return the event that puts a head into the chain; its time must be the head's."""
    return Event(who="", host="", act=HEAD, obj=str(head.seq), result=head.signature)


def digest_of(text: bytes) -> str:
    """Return the hash of a record."""
    return hashlib.sha256(text).hexdigest()


def read_entry(offset: int, text: bytes) -> Entry:
    """Return the record that was written so, or raise AuditBroken."""
    try:
        entry = msgspec.json.decode(text, type=Entry)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AuditBroken(offset, f"it cannot be read: {error}") from None
    if entry.text != text:
        raise AuditBroken(offset, "it is not written as the broker writes it")
    return entry


def verify(
    records: Iterable[Stored],
    heads: Sequence[Head],
    key: "Ed25519PublicKey",
    *,
    first: int = 0,
) -> Verdict:
    """Check a chain against itself, its signatures, and heads that were kept elsewhere.

    `first` is the oldest record that must be there; retention may have removed those before.
    """
    check = _Check(heads, key, first)
    fault = None
    try:
        check.check_heads()
        for stored in records:
            check.take(stored)
        check.finish()
    except AuditBroken as error:
        fault = error
    return Verdict(
        records=check.tip.seq + 1 - first,
        heads=check.good,
        unsigned=check.tip.seq - check.signed,
        tip=check.tip,
        fault=fault,
    )


class _Check:
    """Goes along a chain, record by record."""

    def __init__(self, heads: Sequence[Head], key: "Ed25519PublicKey", first: int) -> None:
        self.tip = Tip(first - 1, GENESIS if first == 0 else "")
        self.good = 0
        self.signed = first - 1
        self._heads = heads
        self._key = key
        self._expected: defaultdict[int, set[str]] = defaultdict(set)

    def check_heads(self) -> None:
        for head in sorted(self._heads, key=lambda head: head.seq):
            self._check_signature(head, head.seq, "the head kept for it")
            self._expected[head.seq].add(head.digest)

    def take(self, stored: Stored) -> None:
        due = self.tip.seq + 1
        if stored.offset > due:
            raise AuditBroken(due, f"it is missing; the next one there is {stored.offset}")
        entry = read_entry(due, stored.text)
        if entry.seq < due:
            raise AuditBroken(entry.seq, "it is there twice")
        if stored.offset < due or entry.seq > due:
            raise AuditBroken(due, f"in its place stands record {entry.seq}")
        digest = digest_of(stored.text)
        if digest != stored.digest:
            raise AuditBroken(due, "it was changed: its hash is another")
        if self.tip.digest and entry.prev != self.tip.digest:
            # One that was put there with care follows what is before it; what comes after tells.
            raise AuditBroken(max(due - 1, 0), f"record {due} was not written after it")
        if entry.act == HEAD:
            self._check_embedded(entry)
        if self._expected.get(due, {digest}) != {digest}:
            raise AuditBroken(due, "it is not the one that was signed")
        if due in self._expected:
            self.signed = due
        self.tip = Tip(due, digest)

    def finish(self) -> None:
        last = max(self._expected, default=-1)
        if last > self.tip.seq:
            raise AuditBroken(
                self.tip.seq + 1, f"the log ends before it, and record {last} was signed"
            )

    def _check_embedded(self, entry: Entry) -> None:
        head = Head(seq=entry.seq - 1, ts=entry.ts, digest=entry.prev, signature=entry.result)
        self._check_signature(head, entry.seq, "the head that it holds")
        self.signed = entry.seq - 1

    def _check_signature(self, head: Head, seq: int, what: str) -> None:
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(bytes.fromhex(head.signature), head.signed_text)
        except (InvalidSignature, ValueError):
            raise AuditBroken(seq, f"{what} is not signed with the key of this log") from None
        self.good += 1


def _canonical(fields: dict[str, object]) -> bytes:
    return _JSON.encode(fields).encode()
