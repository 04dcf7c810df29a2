"""The chain of audit records: what every kind of tampering looks like to `verify`."""

import hashlib
import json
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.audit.chain import (
    TEXT_LENGTH_MAX,
    Event,
    Head,
    Stored,
    Tip,
    digest_of,
    follow,
    head_event,
    read_entry,
    sign,
    verify,
)

KEY = Ed25519PrivateKey.generate()
Trail = list[Stored]


def event(number: int) -> Event:
    return Event(who=f"User:u{number}", host="10.0.0.1", act="topic.create", obj=f"t{number}")


def chain(
    count: int, *, heads_every: int = 5, key: Ed25519PrivateKey = KEY, who: str = ""
) -> tuple[Trail, list[Head]]:
    """Return a trail of so many events, signed now and then, and the heads it was signed with."""
    tip, trail, heads = Tip(), [], []

    def add(one: Event, now_ms: int) -> None:
        nonlocal tip
        text, tip = follow(tip, one, now_ms)
        trail.append(Stored(tip.seq, tip.digest, text))

    for number in range(count):
        one = event(number)
        add(Event(who=who or one.who, host=one.host, act=one.act, obj=one.obj), 1000 + number)
        if number % heads_every == heads_every - 1:
            heads.append(sign(tip, key, 5000 + number))
            add(head_event(heads[-1]), 5000 + number)
    return trail, heads


def changed(stored: Stored, *, rehash: bool, **fields: object) -> Stored:
    """Return a record with other fields, its hash left as it was or made to fit."""
    text = json.dumps(
        json.loads(stored.text) | fields, sort_keys=True, separators=(",", ":")
    ).encode()
    return Stored(stored.offset, digest_of(text) if rehash else stored.digest, text)


def first_bad(trail: Trail, heads: list[Head]) -> int | None:
    fault = verify(trail, heads, KEY.public_key()).fault
    return None if fault is None else fault.seq


def edit(trail: Trail) -> None:
    trail[7] = changed(trail[7], rehash=False, who="User:nobody")


def edit_with_its_hash(trail: Trail) -> None:
    trail[7] = changed(trail[7], rehash=True, who="User:nobody")


def remove(trail: Trail) -> None:
    del trail[7]


def remove_and_close_the_gap(trail: Trail) -> None:
    del trail[7]
    trail[7:] = [Stored(stored.offset - 1, *stored[1:]) for stored in trail[7:]]


def insert(trail: Trail) -> None:
    text, tip = follow(Tip(6, trail[6].digest), event(99), 1)
    trail[7:] = [
        Stored(7, tip.digest, text),
        *(Stored(stored.offset + 1, *stored[1:]) for stored in trail[7:]),
    ]


def swap(trail: Trail) -> None:
    seven, eight = trail[7], trail[8]
    trail[7:9] = [Stored(7, *eight[1:]), Stored(8, *seven[1:])]


def cut_the_end(trail: Trail) -> None:
    del trail[7:]


def spoil(trail: Trail) -> None:
    trail[7] = Stored(7, trail[7].digest, b"\xff")


def write_in_another_form(trail: Trail) -> None:
    text = json.dumps(json.loads(trail[7].text)).encode()
    trail[7] = Stored(7, digest_of(text), text)


TAMPERINGS = [
    edit,
    edit_with_its_hash,
    remove,
    remove_and_close_the_gap,
    insert,
    swap,
    cut_the_end,
    spoil,
    write_in_another_form,
]


def test_an_untouched_chain_is_good() -> None:
    trail, heads = chain(17)
    verdict = verify(trail, heads, KEY.public_key())
    assert verdict.fault is None
    assert (verdict.records, verdict.heads, verdict.unsigned) == (20, 6, 2 + 1)


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_verify_names_the_first_bad_record(tamper: Callable[[Trail], None]) -> None:
    """E13: edits, removals, insertions and truncation are found, and where they begin."""
    trail, heads = chain(17)
    tamper(trail)
    assert first_bad(trail, heads) == 7


@given(st.data())
def test_no_byte_of_a_signed_record_can_be_changed(data: st.DataObject) -> None:
    """E13: whichever byte changes, and even if the record's hash is made to fit."""
    trail, heads = chain(10)
    at = data.draw(st.integers(0, len(trail) - 2))
    text = bytearray(trail[at].text)
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    digest = data.draw(st.sampled_from([trail[at].digest, digest_of(bytes(text))]))
    trail[at] = Stored(at, digest, bytes(text))
    found = first_bad(trail, heads)
    assert found is not None
    assert found <= at + 1


def test_a_chain_written_anew_without_the_key_is_found() -> None:
    """E13: a whole new chain with consistent hashes has no good signature."""
    _, heads = chain(12)
    forged, _ = chain(12, key=Ed25519PrivateKey.generate(), who="User:someone-else")
    assert first_bad(forged, heads) == 4
    assert first_bad(forged, []) == 5


def test_an_end_cut_off_at_a_signed_head_is_found_by_a_head_kept_elsewhere() -> None:
    trail, heads = chain(12)
    del trail[6:]
    assert first_bad(trail, []) is None
    assert first_bad(trail, heads) == 6


def test_a_head_kept_elsewhere_must_be_signed_too() -> None:
    trail, heads = chain(12)
    forged = Head(seq=2, ts=1, digest=trail[2].digest, signature=heads[0].signature)
    assert first_bad(trail, [forged]) == 2
    assert first_bad(trail, [Head(seq=2, ts=1, digest=trail[2].digest, signature="zz")]) == 2


def test_records_before_the_first_one_asked_for_may_be_gone() -> None:
    trail, heads = chain(17)
    assert first_bad(trail[6:], heads) == 0
    verdict = verify(trail[6:], heads[1:], KEY.public_key(), first=6)
    assert (verdict.fault, verdict.records) == (None, 14)


def test_what_a_client_sends_does_not_make_records_long() -> None:
    text, _ = follow(Tip(), Event(who="x" * 10_000, host="h", act="a", obj="\0" * 10_000), 1)
    entry = read_entry(0, text)
    assert len(entry.who) == len(entry.obj) == TEXT_LENGTH_MAX


def test_the_hash_is_the_sha_256_of_the_stored_bytes() -> None:
    """A verifier in any language needs nothing of ours."""
    trail, _ = chain(2)
    first, second = (json.loads(stored.text) for stored in trail)
    assert hashlib.sha256(trail[0].text).hexdigest() == second["prev"]
    assert sorted(first) == ["act", "host", "obj", "prev", "result", "seq", "ts", "who"]
