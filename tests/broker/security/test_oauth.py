"""Signed tokens: whose, for whom, and from when until when."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest

from chordmq.broker.security.auth_settings import AuthSettings, OAuthSettings
from chordmq.broker.security.oauth import FETCH_INTERVAL_MIN_S, TokenChecker
from chordmq.clock import ManualClock
from chordmq.errors import AuthenticationFailed
from tests.broker.security.accounts import authenticator_at
from tests.broker.security.issuer import (
    AUDIENCE,
    ISSUER,
    Issuer,
    elliptic_jwks,
    signed_by_shared_secret,
    unsigned,
)

HERE = "10.0.0.1"


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def settings(tmp_path: Path, issuer: Issuer) -> OAuthSettings:
    file = tmp_path / "jwks.json"
    file.write_text(issuer.jwks())
    return OAuthSettings(jwks=str(file), issuer=ISSUER, audience=AUDIENCE, clock_skew_s=5)


def now_s(clock: ManualClock) -> float:
    return clock.now_ms() / 1000


async def test_a_good_token_names_its_user_groups_and_end(
    settings: OAuthSettings, issuer: Issuer, clock: ManualClock
) -> None:
    """C10: OAUTHBEARER with a JWKS."""
    login = await TokenChecker(settings, clock).check(issuer.token(now_s(clock)))
    assert login.principal.name == "alice"
    assert login.principal.groups == {"readers", "writers"}
    assert login.expires_ms == clock.now_ms() + 65_000


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.test"},
        {"iss": None},
        {"aud": "another service"},
        {"aud": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"nbf": 32503680000},
        {"iat": 32503680000},
        {"sub": None},
        {"sub": ""},
    ],
    ids=str,
)
async def test_a_token_with_a_wrong_claim_is_refused(
    settings: OAuthSettings, issuer: Issuer, clock: ManualClock, claims: dict[str, Any]
) -> None:
    """C10: wrong issuer, wrong audience, expired, not valid yet, nobody's."""
    if claims == {"sub": ""}:
        claims = {"sub": "", "name": "alice"}
    with pytest.raises(AuthenticationFailed):
        await TokenChecker(settings, clock).check(issuer.token(now_s(clock), **claims))


async def test_a_token_ends_by_this_nodes_clock_with_some_skew(
    settings: OAuthSettings, issuer: Issuer, clock: ManualClock
) -> None:
    """C10: clocks may differ a little."""
    checker = TokenChecker(settings, clock)
    token = issuer.token(now_s(clock))
    early = issuer.token(now_s(clock), nbf=int(now_s(clock)) + 4)
    await checker.check(early)
    clock.advance(64_000)
    await checker.check(token)
    clock.advance(1_000)
    with pytest.raises(AuthenticationFailed):
        await checker.check(token)


async def test_what_the_issuer_has_not_signed_is_refused(
    settings: OAuthSettings, issuer: Issuer, clock: ManualClock
) -> None:
    """C10: other keys, no signature, a shared secret, a changed token, no token at all."""
    checker = TokenChecker(settings, clock)
    good = issuer.token(now_s(clock))
    head, body, signature = good.split(".")
    other_body = issuer.token(now_s(clock), sub="admin").split(".")[1]
    for token in (
        Issuer("first").token(now_s(clock)),
        unsigned(now_s(clock)),
        signed_by_shared_secret(now_s(clock), issuer.public()["n"]),
        f"{head}.{other_body}.{signature}",
        f"{head}.{body}.",
        "garbage",
        "",
    ):
        with pytest.raises(AuthenticationFailed):
            await checker.check(token)


async def test_elliptic_keys_are_as_good(tmp_path: Path, clock: ManualClock) -> None:
    public, key = elliptic_jwks()
    file = tmp_path / "curve.json"
    file.write_text(public)
    content = {"iss": ISSUER, "sub": "bob", "exp": int(now_s(clock)) + 60}
    token = jwt.encode(content, key, "ES256", headers={"kid": "curve"})
    login = await TokenChecker(OAuthSettings(jwks=str(file), issuer=ISSUER), clock).check(token)
    assert login.principal.name == "bob"


class Keys(http.server.BaseHTTPRequestHandler):
    """Serves what `answers` says and counts how often it is asked."""

    answer = ""
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        data = self.answer.encode()
        self.send_response(200 if data else 500)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(jwks: str) -> Iterator[tuple[type[Keys], str]]:
    handler = type("Serving", (Keys,), {"answer": jwks, "asked": 0})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield handler, f"http://127.0.0.1:{server.server_port}/jwks"
        finally:
            server.shutdown()
            thread.join()


async def test_a_new_key_is_fetched_when_a_token_needs_it_but_not_all_the_time(
    issuer: Issuer, clock: ManualClock
) -> None:
    """C10: keys rotate; made-up key ids do not make the node ask and ask."""
    second = Issuer("second")
    with serving(issuer.jwks()) as (keys, url):
        checker = TokenChecker(OAuthSettings(jwks=url, issuer=ISSUER, audience=AUDIENCE), clock)
        await checker.check(issuer.token(now_s(clock)))
        for _ in range(5):
            with pytest.raises(AuthenticationFailed):
                await checker.check(second.token(now_s(clock)))
        assert keys.asked == 1
        keys.answer = second.jwks(issuer)
        clock.advance(round(FETCH_INTERVAL_MIN_S * 1000) + 1)
        await checker.check(second.token(now_s(clock)))
        await checker.check(issuer.token(now_s(clock)))
        assert keys.asked == 2


async def test_keys_stay_when_the_issuer_is_down(issuer: Issuer, clock: ManualClock) -> None:
    with serving(issuer.jwks()) as (keys, url):
        settings = OAuthSettings(jwks=url, issuer=ISSUER, audience=AUDIENCE, refresh_s=100)
        checker = TokenChecker(settings, clock)
        await checker.check(issuer.token(now_s(clock)))
        keys.answer = ""
        clock.advance(101_000)
        await checker.check(issuer.token(now_s(clock)))
        assert keys.asked == 2


async def test_the_mechanism_says_why_before_it_ends(
    tmp_path: Path, settings: OAuthSettings, issuer: Issuer, clock: ManualClock
) -> None:
    """C10: RFC 7628 as Kafka's clients speak it."""
    offered = AuthSettings(mechanisms="OAUTHBEARER", oauth=settings)
    with authenticator_at(tmp_path, offered, clock) as judge:
        token = issuer.token(now_s(clock))
        for head in ("n,,", "n,a=alice,"):
            message = f"{head}\x01auth=Bearer {token}\x01traceId=123\x01\x01"
            step = await judge.begin("OAUTHBEARER", HERE).step(message.encode())
            assert step.login is not None
            assert step.login.principal.name == "alice"
        exchange = judge.begin("OAUTHBEARER", HERE)
        step = await exchange.step(b"n,,\x01auth=Bearer nonsense\x01\x01")
        assert (step.reply, step.login) == (b'{"status": "invalid_token"}', None)
        with pytest.raises(AuthenticationFailed):
            await exchange.step(b"\x01")
        for message in ("", "n,,", "n,,\x01\x01", "n,,\x01auth=Basic x\x01\x01", "garbage"):
            with pytest.raises(AuthenticationFailed):
                await judge.begin("OAUTHBEARER", HERE).step(message.encode())
