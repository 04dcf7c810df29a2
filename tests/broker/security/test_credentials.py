"""Credentials: the keys of RFC 5802, as other implementations derive them."""

import base64
import hashlib

import pytest
from scramp import ScramMechanism

from chordmq.broker.security.credentials import HASHES, derive, fits, from_salted, imagined

MECHANISMS = list(HASHES)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_another_implementation_derives_the_same_keys(mechanism: str) -> None:
    """C10: stored and server key as scramp has them, which Kafka's own formatter agrees with."""
    ours = derive(mechanism, "s3cret", 4096)
    theirs = ScramMechanism(mechanism).make_auth_info("s3cret", 4096, ours.salt)
    assert (ours.salt, ours.stored_key, ours.server_key, ours.iterations) == theirs


def test_the_example_of_rfc_7677_comes_out() -> None:
    """C10: user, pencil and the salt of the RFC's exchange."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    credential = from_salted("SCRAM-SHA-256", salted, salt, 4096)
    assert (
        base64.b64encode(credential.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    )
    assert (
        base64.b64encode(credential.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )
    assert fits("SCRAM-SHA-256", "pencil", credential)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_only_the_password_fits(mechanism: str) -> None:
    credential = derive(mechanism, "pässword")
    assert fits(mechanism, "pässword", credential)
    assert not fits(mechanism, "passwort", credential)


def test_the_same_password_gets_another_salt_each_time() -> None:
    """C10: equal passwords cannot be told by their rows."""
    assert derive("SCRAM-SHA-256", "x").salt != derive("SCRAM-SHA-256", "x").salt


def test_an_unknown_user_has_the_same_salt_each_time_and_no_password() -> None:
    """C10: whoever asks twice for the salt of a name learns nothing."""
    first = imagined("SCRAM-SHA-256", "nobody", b"secret")
    again = imagined("SCRAM-SHA-256", "nobody", b"secret")
    assert (first.salt, first.iterations) == (again.salt, again.iterations)
    assert len(first.salt) == len(derive("SCRAM-SHA-256", "x").salt)
    assert first.salt != imagined("SCRAM-SHA-256", "nobody", b"other node").salt
    assert first.stored_key != again.stored_key


def test_a_credential_prints_without_its_keys() -> None:
    """E13: no secret in a log by accident."""
    credential = derive("SCRAM-SHA-256", "x")
    assert repr(credential) == "Credential(iterations=4096)"
