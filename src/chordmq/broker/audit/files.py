"""The audit trail on disk: its keys, the head kept beside the log, and a log read where it lies."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chordmq.broker.audit.chain import AuditBroken, Head, Stored
from chordmq.errors import ChordMQError
from chordmq.records.batch import walk
from chordmq.records.record import Record, read_records
from chordmq.storage import files
from chordmq.storage.metadata.audit import heads_in

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

TOPIC = "__audit"
DIRECTORY = "audit"
KEY_FILE, PUBLIC_FILE, HEAD_FILE = "key.pem", "public.pem", "head.json"


def load_key(file: Path, public: Path) -> "Ed25519PrivateKey":
    """Return the key in a file, made if there is none; its public half is put beside the log."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not file.exists():
        plain = (form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        _write_secret(file, Ed25519PrivateKey.generate().private_bytes(*plain))
    key = form.load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("it is not an Ed25519 key")
    text = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    if not public.exists() or public.read_bytes() != text:
        files.replace(public, text)
    return key


def load_public_key(file: Path) -> "Ed25519PublicKey":
    """Return the public key in a file, or raise OSError or ValueError."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = form.load_pem_public_key(file.read_bytes())
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(f"{file} is not an Ed25519 key")
    return key


def write_head(file: Path, head: Head) -> None:
    """Put the newest head into a file."""
    files.replace(file, msgspec.json.encode(head))


def read_head(file: Path) -> Head:
    """Return the head in a file, or raise OSError or ValueError."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Head)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{file} holds no head of an audit trail: {error}") from None


def kept_heads(data_dir: Path) -> list[Head]:
    """Return the heads that a data directory keeps beside the log."""
    found = [Head(**asdict(row)) for row in heads_in(data_dir / "meta.db")]
    file = data_dir / DIRECTORY / HEAD_FILE
    return [*found, read_head(file)] if file.exists() else found


def records_in(data_dir: Path) -> Iterator[Stored]:
    """Yield the trail that a data directory holds, without a node and without changing it."""
    offset = 0
    for segment in sorted((data_dir / "topics" / f"{TOPIC}-0").glob("*.log")):
        data = memoryview(segment.read_bytes())
        try:
            for position, header in walk(data):
                for record in read_records(data[position : position + header.size]):
                    offset = record.offset
                    yield stored(record)
        except ChordMQError as error:
            raise AuditBroken(offset + 1, f"{segment.name} cannot be read: {error}") from None


def stored(record: Record) -> Stored:
    """Return a record of the topic as a record of the trail."""
    return Stored(record.offset, (record.key or b"").hex(), record.value or b"")


def _write_secret(file: Path, content: bytes) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(fd)
    files.sync(file.parent)
