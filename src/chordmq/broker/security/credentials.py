"""What is stored instead of a password, and the proof that a password fits it (RFC 5802, 7677)."""

import hashlib
import hmac
import secrets

from chordmq.broker.security.accounts import Credential

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The SCRAM mechanisms, each with its hash function."""
FIRST = "SCRAM-SHA-256"
ITERATIONS = 4096
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
SALT_SIZE = 32


def derive(mechanism: str, password: str, iterations: int = ITERATIONS) -> Credential:
    """Return a new credential for the password, under a salt of its own; takes milliseconds."""
    salt = secrets.token_bytes(SALT_SIZE)
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return from_salted(mechanism, salted, salt, iterations)


def from_salted(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """Return the credential for a password that was salted elsewhere (KIP-554)."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return Credential(iterations, salt, stored_key, hmac.digest(salted, b"Server Key", name))


def fits(mechanism: str, password: str, credential: Credential) -> bool:
    """Say whether the password is the credential's; takes milliseconds, whatever the answer."""
    salted = hashlib.pbkdf2_hmac(
        HASHES[mechanism], password.encode(), credential.salt, credential.iterations
    )
    proof = from_salted(mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(proof.stored_key, credential.stored_key)


def imagined(mechanism: str, name: str, secret: bytes) -> Credential:
    """Return a credential for a user who does not exist: the same each time, and fitting nothing.

    Whoever asks for the salt of a name cannot tell whether the name has a user.
    """
    salt = hmac.digest(secret, f"{mechanism}:{name}".encode(), "sha256")[:SALT_SIZE]
    size = hashlib.new(HASHES[mechanism]).digest_size
    return Credential(ITERATIONS, salt, secrets.token_bytes(size), secrets.token_bytes(size))
