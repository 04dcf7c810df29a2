"""Checks signed tokens (JSON Web Tokens, RFC 7519) against the public keys of their issuer."""

import asyncio
import json
import random
import urllib.request
from pathlib import Path
from typing import Any

import jwt

from chordmq.broker.security.auth_settings import OAuthSettings
from chordmq.broker.security.principal import Login, Principal
from chordmq.client.breaker import Breaker
from chordmq.clock import Clock
from chordmq.errors import AuthenticationFailed
from chordmq.logs import get_logger

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures by key pairs only: whoever can check a token must not be able to make one."""
FETCH_TIMEOUT_S = 5.0
FETCH_SIZE_MAX = 1024 * 1024
FETCH_INTERVAL_MIN_S = 10.0
"""Tokens with made-up key ids must not make the node ask its issuer all the time."""

log = get_logger(__name__)


class TokenChecker:
    """The issuer's keys, fetched when needed and kept when they cannot be fetched again."""

    def __init__(self, settings: OAuthSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_s: float | None = None
        self._fetching = asyncio.Lock()
        chance = random.Random()  # noqa: S311 (jitter, not a secret)
        self.breaker = Breaker("token issuer", chance)

    async def check(self, token: str) -> Login:
        """Return whom the token stands for and until when, or raise AuthenticationFailed."""
        try:
            key = await self._key(jwt.get_unverified_header(token))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                issuer=self._settings.issuer,
                audience=self._settings.audience or None,
                # Times are checked below, by this node's clock.
                options={
                    "require": ["exp", "iss"],
                    "verify_aud": bool(self._settings.audience),
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.PyJWTError as error:
            raise AuthenticationFailed(_reason(error)) from None
        return self._login(claims)

    def _login(self, claims: dict[str, Any]) -> Login:
        now_s = self._clock.now_ms() / 1000
        skew_s = self._settings.clock_skew_s
        expires_s = _time(claims, "exp")
        if expires_s is None or expires_s + skew_s <= now_s:
            raise AuthenticationFailed("the token has expired")
        for claim in ("nbf", "iat"):
            begins_s = _time(claims, claim)
            if begins_s is not None and begins_s - skew_s > now_s:
                raise AuthenticationFailed(f"the token is not valid yet ({claim})")
        name = claims.get(self._settings.name_claim)
        if not isinstance(name, str) or not name:
            raise AuthenticationFailed(f"the token has no {self._settings.name_claim}")
        groups = claims.get(self._settings.groups_claim, [])
        if not isinstance(groups, list):
            groups = [groups]
        names = frozenset(group for group in groups if isinstance(group, str))
        return Login(Principal(name, names), int((expires_s + skew_s) * 1000))

    async def _key(self, header: dict[str, Any]) -> jwt.PyJWK:
        if header.get("alg") not in ALGORITHMS:
            raise AuthenticationFailed("the token's algorithm is not accepted")
        key_id = header.get("kid")
        if self._is_old() or (key_id not in self._keys and self._may_fetch()):
            await self._fetch()
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if not isinstance(key_id, str) or key_id not in self._keys:
            raise AuthenticationFailed("no key of the issuer has the token's key id")
        return self._keys[key_id]

    def _is_old(self) -> bool:
        age_s = self._age_s()
        return age_s is None or age_s > self._settings.refresh_s

    def _may_fetch(self) -> bool:
        age_s = self._age_s()
        return age_s is None or age_s > FETCH_INTERVAL_MIN_S

    def _age_s(self) -> float | None:
        return None if self._fetched_s is None else self._clock.monotonic_s() - self._fetched_s

    async def _fetch(self) -> None:
        before = self._fetched_s
        async with self._fetching:
            if self._fetched_s != before:
                return  # somebody else has just done it
            if not self.breaker.allows(self._clock.monotonic_s()):
                return
            self._fetched_s = self._clock.monotonic_s()
            try:
                self._keys = await asyncio.to_thread(_read_keys, self._settings.jwks)
            except (OSError, ValueError, jwt.PyJWTError) as error:
                self.breaker.failed(self._clock.monotonic_s())
                log.error("keys of the token issuer cannot be read", reason=str(error))
            else:
                self.breaker.succeeded()


def _read_keys(place: str) -> dict[str, jwt.PyJWK]:
    if place.startswith(("https://", "http://")):
        with urllib.request.urlopen(place, timeout=FETCH_TIMEOUT_S) as answer:  # noqa: S310
            data = answer.read(FETCH_SIZE_MAX)
    else:
        data = Path(place).read_bytes()
    keys = jwt.PyJWKSet.from_dict(json.loads(data)).keys
    signing = (key for key in keys if key.public_key_use in (None, "sig"))
    return {key.key_id or "": key for key in signing}


def _time(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AuthenticationFailed(f"the token's {name} is not a time")
    return float(value)


def _reason(error: jwt.PyJWTError) -> str:
    """Return why a token is refused, free of anything out of the token."""
    reasons = {
        jwt.InvalidAudienceError: "the token is for another audience",
        jwt.InvalidIssuerError: "the token is of another issuer",
        jwt.InvalidSignatureError: "the token's signature is wrong",
        jwt.MissingRequiredClaimError: "the token lacks a claim",
    }
    return reasons.get(type(error), "the token cannot be read")
