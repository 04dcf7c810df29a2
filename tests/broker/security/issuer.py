"""An issuer of tokens: its keys, and tokens right and wrong."""

import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER, AUDIENCE = "https://issuer.test", "chordmq"


class Issuer:
    """Signs tokens by an RSA key; `jwks` is what it publishes."""

    def __init__(self, key_id: str = "first") -> None:
        self.key_id = key_id
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwks(self, *others: "Issuer") -> str:
        """Return the public keys of this issuer, and of others with it."""
        return json.dumps({"keys": [one.public() for one in (self, *others)]})

    def public(self) -> dict[str, Any]:
        """Return the public key as JSON."""
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {**key, "kid": self.key_id, "use": "sig", "alg": "RS256"}

    def token(self, now_s: float, **claims: Any) -> str:
        """Return a token for alice that holds for a minute, except where told otherwise."""
        content = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": int(now_s),
            "exp": int(now_s) + 60,
            "groups": ["readers", "writers"],
        } | claims
        present = {name: value for name, value in content.items() if value is not None}
        return jwt.encode(present, self._key, "RS256", headers={"kid": self.key_id})


def signed_by_shared_secret(now_s: float, secret: str) -> str:
    """Return a token that anybody could make who knows a public key (HMAC)."""
    content = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(now_s) + 60}
    return jwt.encode(content, secret, "HS256", headers={"kid": "first"})


def unsigned(now_s: float) -> str:
    """Return a token that nobody has signed."""
    content = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(now_s) + 60}
    return jwt.encode(content, "", "none", headers={"kid": "first"})


def elliptic_jwks() -> tuple[str, ec.EllipticCurvePrivateKey]:
    """Return another kind of key: its public form, and itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return json.dumps({"keys": [{**public, "kid": "curve"}]}), key
