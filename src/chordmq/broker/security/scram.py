"""The server's half of SCRAM (RFC 5802, RFC 7677): two messages in, two out, nothing else.

Written here because of one client: librdkafka before 2.6 puts its own nonce in front of the common
one a second time. Kafka lets that pass, since the part that only the server can choose is at the
end; so does this, and a replayed message still fails.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from chordmq.broker.security.accounts import Credential
from chordmq.broker.security.credentials import HASHES

NONCE_SIZE = 24

_FIRST = re.compile(
    r"(?P<header>[ny],(?:a=(?P<on_behalf_of>[^,]*))?,)(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[^,]+))"
)
_FINAL = re.compile(r"(?P<signed>c=(?P<binding>[^,]+),r=(?P<nonce>[^,]+)),p=(?P<proof>[^,]+)")
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_ESCAPE = re.compile(r"=(2C|3D|)")
_UNESCAPED = {"2C": ",", "3D": "="}


class ScramServer:
    """One exchange; `find` gives the credential of a name. What breaks a rule is a ValueError."""

    def __init__(self, mechanism: str, find: Callable[[str], Credential]) -> None:
        self.name = ""
        self._hash = HASHES[mechanism]
        self._find = find
        self.credential: Credential
        self._nonce = ""
        self._header = ""
        self._begun = ""
        """The messages so far as both sides sign them."""

    def first(self, text: str) -> str:
        """Take the client's first message; return salt, iterations and the common nonce."""
        found = _FIRST.fullmatch(text)
        if found is None or not _NONCE.fullmatch(found["nonce"]):
            raise ValueError("the first message does not follow RFC 5802")
        self.name = _unescape(found["name"])
        if _unescape(found["on_behalf_of"] or "") not in ("", self.name):
            raise ValueError("nobody may act on behalf of another user")
        self.credential = self._find(self.name)
        self._header = found["header"]
        self._nonce = found["nonce"] + secrets.token_urlsafe(NONCE_SIZE)
        salt = base64.b64encode(self.credential.salt).decode()
        reply = f"r={self._nonce},s={salt},i={self.credential.iterations}"
        self._begun = f"{found['bare']},{reply}"
        return reply

    def final(self, text: str) -> str:
        """Take the client's proof; return the server's own."""
        found = _FINAL.fullmatch(text)
        if found is None or not self._begun:
            raise ValueError("the final message does not follow RFC 5802")
        if _decode(found["binding"]) != self._header.encode():
            raise ValueError("the channel binding is another one")
        if not found["nonce"].endswith(self._nonce):
            raise ValueError("the nonce is another one")
        signed = f"{self._begun},{found['signed']}".encode()
        self._begun = ""
        credential = self.credential
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        proof = _decode(found["proof"])
        if len(proof) != len(signature):
            raise ValueError("the proof has another size")
        key = _exclusive_or(proof, signature)
        if not hmac.compare_digest(hashlib.new(self._hash, key).digest(), credential.stored_key):
            raise ValueError("the proof is wrong")
        answer = hmac.digest(credential.server_key, signed, self._hash)
        return f"v={base64.b64encode(answer).decode()}"


def _unescape(name: str) -> str:
    def character(found: re.Match[str]) -> str:
        if not found[1]:
            raise ValueError("the name holds an equals sign that means nothing")
        return _UNESCAPED[found[1]]

    return _ESCAPE.sub(character, name)


def _exclusive_or(one: bytes, other: bytes) -> bytes:
    number = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return number.to_bytes(len(one), "big")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("the message is not in base 64") from None
