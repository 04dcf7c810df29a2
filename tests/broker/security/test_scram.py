"""SCRAM's server against the RFC's own example, an independent client, and an old librdkafka."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient

from chordmq.broker.security.credentials import HASHES, derive, from_salted
from chordmq.broker.security.scram import ScramServer

PENCIL = derive("SCRAM-SHA-256", "pencil")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"


def server() -> ScramServer:
    return ScramServer("SCRAM-SHA-256", lambda name: PENCIL)


def test_the_example_of_rfc_7677_is_answered_to_the_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C10: with the nonce and salt of the RFC."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    credential = from_salted("SCRAM-SHA-256", salted, salt, 4096)
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    server = ScramServer("SCRAM-SHA-256", lambda name: credential)
    nonce = f"{CLIENT_NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = server.first(f"n,,n=user,r={CLIENT_NONCE}")
    assert first == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = server.final(f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert final == "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.name == "user"


@pytest.mark.parametrize("mechanism", HASHES)
def test_an_independent_client_and_the_server_believe_each_other(mechanism: str) -> None:
    credential = derive(mechanism, "s3cret", 8192)
    server = ScramServer(mechanism, lambda name: credential)
    client = ScramClient([mechanism], "a=b,c", "s3cret")
    client.set_server_first(server.first(client.get_client_first()))
    client.set_server_final(server.final(client.get_client_final()))
    assert server.name == "a=b,c"


def old_librdkafka(server: ScramServer, password: str, *, is_replayed: bool = False) -> str:
    """Log in as librdkafka 2.0 does: its own nonce stands twice in the final message."""
    bare = f"n=user,r={CLIENT_NONCE}"
    first = server.first(f"n,,{bare}")
    fields = dict(part.split("=", 1) for part in first.split(","))
    nonce = CLIENT_NONCE + ("x" * 52 if is_replayed else fields["r"])
    final = f"c=biws,r={nonce}"
    salt = base64.b64decode(fields["s"])
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, int(fields["i"]))
    signed = f"{bare},{first},{final}".encode()
    client_key = _hmac(salted, b"Client Key")
    signature = _hmac(hashlib.sha256(client_key).digest(), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return server.final(f"{final},p={base64.b64encode(proof).decode()}")


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def test_a_client_that_repeats_its_nonce_is_believed_as_kafka_believes_it() -> None:
    """C10: kcat as Debian ships it."""
    assert old_librdkafka(server(), "pencil").startswith("v=")
    with pytest.raises(ValueError, match="proof"):
        old_librdkafka(server(), "pen")
    with pytest.raises(ValueError, match="nonce"):
        old_librdkafka(server(), "pencil", is_replayed=True)


def test_one_proof_is_taken_once() -> None:
    """C10: a replayed SCRAM message."""
    client = ScramClient(["SCRAM-SHA-256"], "user", "pencil")
    one = server()
    first = client.get_client_first()
    client.set_server_first(one.first(first))
    final = client.get_client_final()
    one.final(final)
    with pytest.raises(ValueError, match="RFC 5802"):
        one.final(final)
    other = server()
    other.first(first)
    with pytest.raises(ValueError, match="nonce"):
        other.final(final)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("c=biws", "c=eSws"),
        lambda text: text.replace("c=biws", "c=%%%%"),
        lambda text: text[: text.index(",p=")],
        lambda text: text.replace(",p=", ",x=1,p="),
        lambda text: text[: text.index(",p=")] + ",p=AAAA",
        lambda text: text.replace(",r=", ",r=x"),
    ],
)
def test_a_changed_final_message_proves_nothing(change: Callable[[str], str]) -> None:
    client = ScramClient(["SCRAM-SHA-256"], "user", "pencil")
    one = server()
    client.set_server_first(one.first(client.get_client_first()))
    final = client.get_client_final()
    with pytest.raises(ValueError):  # noqa: PT011
        one.final(change(final))


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_answered_or_refused(first: str, final: str) -> None:
    """C11: nothing but a ValueError comes of a message."""
    one = server()
    for step, text in ((one.first, first), (one.final, final)):
        try:
            step(text)
        except ValueError:
            pass


def test_a_proof_before_the_first_message_is_refused() -> None:
    with pytest.raises(ValueError, match="RFC 5802"):
        server().final("c=biws,r=x,p=AAAA")
