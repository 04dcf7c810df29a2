"""Encrypted records: what can be read with which key, and what no longer opens."""

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap
from hypothesis import given
from hypothesis import strategies as st

from chordmq.clock import ManualClock
from chordmq.encryption.envelope import Envelope, EnvelopeSettings, is_sealed
from chordmq.encryption.errors import EncryptionError, NotEncrypted, Tampered, UnknownKey
from chordmq.encryption.keyring import KeyRing, new_ring
from chordmq.records.record import Headers, NewRecord, Record, build_batch, read_records

RING = new_ring(now_ms=0)
PLAIN = NewRecord(7, b"device-1", b"secret reading", (("unit", b"C"), ("note", None)))

headers = st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4
).map(tuple)


def envelope(ring: KeyRing = RING, **settings: object) -> Envelope:
    return Envelope(ring, ManualClock(), EnvelopeSettings(**settings))  # type: ignore[arg-type]


def stored(record: NewRecord, offset: int = 0) -> Record:
    return Record(offset, *record)


def header(record: NewRecord | Record, name: str) -> bytes:
    return dict(record.headers)[name] or b""


def with_header(record: Record, name: str, value: bytes | None) -> Record:
    changed = tuple((n, value if n == name else v) for n, v in record.headers)
    return record._replace(headers=changed)


@given(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=200), headers)
def test_a_sealed_record_opens_to_what_it_was(
    key: bytes | None, value: bytes | None, given_headers: Headers
) -> None:
    """E13: whatever key, value and headers there are, through a batch as it is stored."""
    record = NewRecord(7, key, value, given_headers)
    if any(name.startswith("enc.") for name, _ in given_headers):
        return
    (found,) = read_records(build_batch([envelope().seal("t", record)]))
    opened = envelope().open("t", found)
    assert opened[1:] == record


def test_nothing_of_the_value_can_be_seen() -> None:
    sealed = envelope().seal("t", PLAIN)
    assert b"secret" not in repr(sealed).encode()
    assert is_sealed(sealed.headers)
    assert sealed.key == PLAIN.key


def test_any_program_with_the_key_can_read_it() -> None:
    """E13: AES-256-GCM, the data key wrapped as in RFC 3394, the key's id in a header."""
    sealed = envelope().seal("t", NewRecord(0, b"k", b"hello"))
    assert sealed.value is not None
    assert header(sealed, "enc.alg") == b"A256GCM"
    assert header(sealed, "enc.kid") == RING.current.encode()
    data_key = aes_key_unwrap(RING.keys[0].key, header(sealed, "enc.dek"))
    bound = b"\0\0\0\7A256GCM" + b"\0\0\0\1t" + b"\0\0\0\1k"
    assert AESGCM(data_key).decrypt(header(sealed, "enc.nonce"), sealed.value, bound) == b"hello"


def flip(data: bytes | None, at: int = 0) -> bytes:
    changed = bytearray(data or b"\0")
    changed[at] ^= 1
    return bytes(changed)


TAMPERINGS: dict[str, Callable[[Record], Record]] = {
    "first byte of the value": lambda r: r._replace(value=flip(r.value)),
    "last byte of the value": lambda r: r._replace(value=flip(r.value, -1)),
    "value cut short": lambda r: r._replace(value=(r.value or b"")[:-1]),
    "value empty": lambda r: r._replace(value=b""),
    "key": lambda r: r._replace(key=b"device-2"),
    "key gone": lambda r: r._replace(key=None),
    "header": lambda r: with_header(r, "unit", b"F"),
    "header null": lambda r: with_header(r, "unit", None),
    "header gone": lambda r: r._replace(headers=r.headers[1:]),
    "header added before": lambda r: r._replace(headers=(("x", b"y"), *r.headers)),
    "headers in another order": lambda r: r._replace(
        headers=(r.headers[1], r.headers[0], *r.headers[2:])
    ),
    "algorithm": lambda r: with_header(r, "enc.alg", b"none"),
    "data key": lambda r: with_header(r, "enc.dek", flip(header(r, "enc.dek"))),
    "data key null": lambda r: with_header(r, "enc.dek", None),
    "data key short": lambda r: with_header(r, "enc.dek", b"x"),
    "nonce": lambda r: with_header(r, "enc.nonce", flip(header(r, "enc.nonce"))),
    "nonce short": lambda r: with_header(r, "enc.nonce", b""),
    "algorithm gone": lambda r: r._replace(headers=r.headers[:2] + r.headers[3:]),
    "nonce gone": lambda r: r._replace(headers=r.headers[:-1]),
}


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_a_record_that_was_changed_does_not_open(tamper: Callable[[Record], Record]) -> None:
    """E13: value, key, headers and the data of the encryption itself."""
    sealed = stored(envelope().seal("t", PLAIN))
    with pytest.raises(Tampered):
        envelope().open("t", tamper(sealed))


def test_a_record_does_not_open_in_another_topic_or_under_another_records_key() -> None:
    """E13: records cannot be moved or swapped."""
    sealer = envelope()
    first = stored(sealer.seal("t", NewRecord(0, b"a", b"1")))
    second = stored(sealer.seal("t", NewRecord(0, b"b", b"2")))
    with pytest.raises(Tampered):
        envelope().open("u", first)
    with pytest.raises(Tampered):
        envelope().open("t", first._replace(value=second.value, headers=second.headers))
    with pytest.raises(Tampered):
        envelope().open("t", first._replace(value=second.value))


def test_headers_that_were_added_on_the_way_are_kept() -> None:
    sealed = stored(envelope().seal("t", PLAIN))
    late = sealed._replace(headers=(*sealed.headers, ("chordmq.topic", b"a/b")))
    assert envelope().open("t", late).headers == (*PLAIN.headers, ("chordmq.topic", b"a/b"))


def test_a_plain_record_is_refused_unless_the_topic_changes_over() -> None:
    plain = stored(PLAIN)
    with pytest.raises(NotEncrypted):
        envelope().open("t", plain)
    assert envelope(accepts_plain=True).open("t", plain) == plain


def test_a_null_value_stays_one_so_that_compaction_can_delete_the_key() -> None:
    deletion = NewRecord(0, b"k", None)
    assert envelope().seal("t", deletion) == deletion
    assert envelope().open("t", stored(deletion)) == stored(deletion)


def test_a_rotated_ring_reads_old_records_and_writes_with_the_new_key() -> None:
    """E13: rotating keys."""
    old = envelope().seal("t", PLAIN)
    rotated = RING.rotated(now_ms=1)
    later = Envelope(rotated, ManualClock())
    assert later.open("t", stored(old)).value == PLAIN.value
    new = later.seal("t", PLAIN)
    assert header(new, "enc.kid") == rotated.current.encode()
    with pytest.raises(UnknownKey, match=rotated.current):
        envelope().open("t", stored(new))


def test_another_ring_with_the_same_ids_opens_nothing() -> None:
    other = KeyRing(tuple(type(k)(k.id, 0, bytes(32)) for k in RING.keys))
    with pytest.raises(Tampered, match="was not wrapped by the key"):
        envelope(other).open("t", stored(envelope().seal("t", PLAIN)))


def test_a_data_key_is_used_for_one_topic_a_time_and_a_number_of_records() -> None:
    clock = ManualClock()
    sealer = Envelope(RING, clock, EnvelopeSettings(records_max=3, age_max_s=60))

    def used(topic: str = "t") -> bytes:
        return header(sealer.seal(topic, PLAIN), "enc.dek")

    first = used()
    assert [used(), used()] == [first, first]
    fourth = used()
    assert fourth != first
    assert used("u") != fourth
    clock.advance(60_000)
    assert used() not in (first, fourth)


def test_nonces_do_not_repeat() -> None:
    sealer = envelope()
    nonces = {header(sealer.seal("t", PLAIN), "enc.nonce") for _ in range(1000)}
    assert len(nonces) == 1000


@given(headers, st.binary(max_size=40))
def test_rubbish_is_refused_by_name(given_headers: Headers, value: bytes) -> None:
    fields: Headers = (("enc.alg", b"A256GCM"), ("enc.kid", RING.current.encode()))
    for extra in (fields, (*fields, ("enc.dek", value), ("enc.nonce", value))):
        with pytest.raises(EncryptionError):
            envelope().open("t", Record(0, 0, None, value, given_headers + extra))
