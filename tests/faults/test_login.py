"""Logins on the wire: what is answered before one, what ends it, and who is not disturbed."""

import base64
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trustme
from kio.schema.errors import ErrorCode
from scramp import ScramClient

from tests.interop.fortress import PASSWORD, Fortress
from tests.running_node import RunningNode
from tests.wire import API_VERSIONS, METADATA, Wire, framed, request

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
PLAIN = b"\0alice\0" + PASSWORD.encode()
MIB = 1 << 20
SESSION_MS = 60_000
SHORT_MS = 5000
PARTIAL_S = 3
BARE = {
    "kafka.tls.certificate": "",
    "kafka.tls.key": "",
    "kafka.tls.client_ca": "",
    "kafka.tls.client_auth": "none",
}


@contextmanager
def running(directory: Path, settings: dict[str, str]) -> Iterator[Fortress]:
    fortress = Fortress(directory, **settings)
    try:
        fortress.node.start()
        yield fortress
    finally:
        fortress.node.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node that listens without TLS, so that tests see every byte."""
    settings = BARE | {"auth.session_max_ms": str(SESSION_MS)}
    with running(tmp_path_factory.mktemp("fortress"), settings) as fortress:
        yield fortress.node


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give such a node whose clients must log in soon, and again soon."""
    settings = {
        "kafka.partial_frame_timeout_s": str(PARTIAL_S),
        "auth.session_max_ms": str(SHORT_MS),
    }
    with running(tmp_path_factory.mktemp("hasty"), BARE | settings) as fortress:
        yield fortress.node


@pytest.fixture
def wire(node: RunningNode) -> Iterator[Wire]:
    with Wire(node.address) as wire:
        yield wire


def handshake(wire: Wire, mechanism: str = "PLAIN", version: int = 1) -> ErrorCode:
    answer = wire.call(SASL_HANDSHAKE, version, mechanism=mechanism)
    assert "SCRAM-SHA-512" in answer.mechanisms
    return ErrorCode(answer.error_code)


def log_in(wire: Wire, message: bytes = PLAIN) -> None:
    assert handshake(wire) is ErrorCode.none
    answer = wire.call(SASL_AUTHENTICATE, 2, auth_bytes=message)
    assert answer.error_code is ErrorCode.none, answer.error_message


def is_served(wire: Wire) -> bool:
    wire.send(METADATA, 12, topics=[])
    return wire.receive_frame() is not None


@pytest.mark.parametrize("api", [METADATA, SASL_AUTHENTICATE, 0, 1, 19, 51])
def test_before_a_login_other_requests_end_the_connection(node: RunningNode, api: int) -> None:
    """C10: only ApiVersions, SaslHandshake and SaslAuthenticate lead on."""
    with Wire(node.address) as wire:
        assert wire.call(API_VERSIONS, 0).error_code is ErrorCode.none
        frame = framed(api.to_bytes(2, "big") + bytes(2 + 4 + 2) + bytes(8))
        wire.socket.sendall(frame)
        assert wire.is_closed_by_peer()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_the_login_works(wire: Wire, version: int) -> None:
    """C1, C10: and only then is anything else answered; the session's life is told from 1 on."""
    assert handshake(wire) is ErrorCode.none
    answer = wire.call(SASL_AUTHENTICATE, version, auth_bytes=PLAIN)
    assert answer.error_code is ErrorCode.none
    if version:
        lifetime_ms = answer.session_lifetime.total_seconds() * 1000
        assert 0 < lifetime_ms <= SESSION_MS
    assert is_served(wire)


def test_handshake_zero_is_followed_by_bare_messages(node: RunningNode) -> None:
    """C10: as clients before Kafka 1.0 do; a refusal is the end of the connection."""
    with Wire(node.address) as wire:
        assert handshake(wire, version=0) is ErrorCode.none
        wire.socket.sendall(framed(PLAIN))
        assert wire.receive_frame() == b""
        assert is_served(wire)
    with Wire(node.address) as wire:
        handshake(wire, "SCRAM-SHA-256", version=0)
        client = ScramClient(["SCRAM-SHA-256"], "alice", PASSWORD)
        wire.socket.sendall(framed(client.get_client_first().encode()))
        client.set_server_first((wire.receive_frame() or b"").decode())
        wire.socket.sendall(framed(client.get_client_final().encode()))
        client.set_server_final((wire.receive_frame() or b"").decode())
        assert is_served(wire)
    with Wire(node.address) as wire:
        handshake(wire, version=0)
        wire.socket.sendall(framed(b"\0mallory\0wrong"))
        assert wire.is_closed_by_peer()


def test_a_failed_login_is_told_and_ends_the_connection(wire: Wire) -> None:
    """C10: SASL_AUTHENTICATION_FAILED, and one text for all reasons."""
    handshake(wire)
    answer = wire.call(SASL_AUTHENTICATE, 2, auth_bytes=b"\0nobody\0wrong")
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == "Authentication failed: invalid credentials"
    assert wire.is_closed_by_peer()


def test_a_mechanism_that_is_not_offered_is_refused(wire: Wire) -> None:
    assert handshake(wire, "GSSAPI") is ErrorCode.unsupported_sasl_mechanism


def test_a_replayed_scram_login_fails(node: RunningNode) -> None:
    """C10: the same bytes that let alice in are worth nothing again."""
    client = ScramClient(["SCRAM-SHA-512"], "alice", PASSWORD)
    with Wire(node.address) as wire:
        handshake(wire, "SCRAM-SHA-512")
        first = client.get_client_first().encode()
        reply = wire.call(SASL_AUTHENTICATE, 2, auth_bytes=first).auth_bytes
        client.set_server_first(reply.decode())
        final = client.get_client_final().encode()
        assert wire.call(SASL_AUTHENTICATE, 2, auth_bytes=final).error_code is ErrorCode.none
        assert is_served(wire)
    with Wire(node.address) as wire:
        handshake(wire, "SCRAM-SHA-512")
        wire.call(SASL_AUTHENTICATE, 2, auth_bytes=first)
        answer = wire.call(SASL_AUTHENTICATE, 2, auth_bytes=final)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert wire.is_closed_by_peer()


def test_a_large_frame_before_the_login_is_refused_unread(node: RunningNode) -> None:
    """C10, C11: an oversized SASL frame; after the login large frames are fine."""
    with Wire(node.address) as wire:
        handshake(wire)
        wire.socket.sendall((600 * 1024).to_bytes(4, "big"))
        assert wire.is_closed_by_peer()
    with Wire(node.address) as wire:
        handshake(wire)
        answer = wire.call(SASL_AUTHENTICATE, 2, auth_bytes=b"\0" * (200 * 1024))
        assert answer.error_code is ErrorCode.sasl_authentication_failed
    with Wire(node.address) as wire:
        log_in(wire)
        wire.socket.sendall((MIB).to_bytes(4, "big") + bytes(1000))
        assert not wire.has_answer(within_s=0.2)


def test_a_session_ends_unless_the_client_proves_itself_again(hasty: RunningNode) -> None:
    """C10: session lifetime and re-authentication (KIP-368)."""
    with Wire(hasty.address) as lazy, Wire(hasty.address) as diligent:
        log_in(lazy)
        log_in(diligent)
        deadline = time.monotonic() + 1.2 * SHORT_MS / 1000
        while time.monotonic() < deadline:
            log_in(diligent)
            assert is_served(diligent)
            time.sleep(0.05)
        lazy.send(METADATA, 12, topics=[])
        assert lazy.is_closed_by_peer()
        assert is_served(diligent)


def test_another_login_cannot_change_the_user_or_the_mechanism(node: RunningNode) -> None:
    """C10: re-authentication is by the same principal and mechanism, as in Kafka."""
    with Wire(node.address) as wire:
        log_in(wire)
        handshake(wire)
        message = b"\0mallory\0" + PASSWORD.encode()
        answer = wire.call(SASL_AUTHENTICATE, 2, auth_bytes=message)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert wire.is_closed_by_peer()
    with Wire(node.address) as wire:
        log_in(wire)
        assert handshake(wire, "SCRAM-SHA-256") is ErrorCode.illegal_sasl_state


def test_a_connection_that_dawdles_before_its_login_is_closed(hasty: RunningNode) -> None:
    """C11: slowloris; whoever drips bytes, or only asks for versions, does not stay."""
    with ExitStack() as stack:
        silent, drip, chatty = (stack.enter_context(Wire(hasty.address)) for _ in range(3))
        begun = framed(request(SASL_HANDSHAKE, 1, 1, {"mechanism": "PLAIN"}))
        for number in range(80):
            for wire, data in (
                (drip, begun[number : number + 1]),
                (chatty, framed(request(API_VERSIONS, 0, number, {}))),
            ):
                try:
                    wire.socket.sendall(data)
                except ConnectionError:
                    break
            time.sleep(PARTIAL_S / 60)
        for wire in (silent, drip, chatty):
            assert wire.is_closed_by_peer()
        with Wire(hasty.address) as other:
            log_in(other)


def test_tls_on_a_plaintext_port_ends_only_itself(node: RunningNode) -> None:
    """C8: a client that expects TLS is refused at once."""
    context = ssl.create_default_context()
    raw = socket.create_connection(node.address, timeout=60)
    with raw, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(raw, server_hostname="localhost")
    with Wire(node.address) as other:
        log_in(other)


# TLS


@pytest.fixture(scope="module")
def walls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    """Give a node that speaks TLS and waits for no handshake longer than a few seconds."""
    settings = {"kafka.tls.handshake_timeout_s": "5"}
    with running(tmp_path_factory.mktemp("walls"), settings) as fortress:
        yield fortress


def secured(fortress: Fortress, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    context = context or ssl.create_default_context(cafile=fortress.ca)
    raw = socket.create_connection(fortress.node.address, timeout=60)
    return context.wrap_socket(raw, server_hostname="localhost")


def versions_over(connection: socket.socket) -> bool:
    """Ask for the versions; return whether an answer came."""
    connection.sendall(framed(request(API_VERSIONS, 0, 1, {})))
    return len(connection.recv(4)) == 4


def test_plaintext_on_a_tls_port_ends_only_itself(walls: Fortress) -> None:
    """C8: Kafka and HTTP in the clear are refused; others are served meanwhile."""
    with secured(walls) as other:
        for data in (
            framed(request(API_VERSIONS, 0, 1, {})),
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0" * 99,
        ):
            with Wire(walls.node.address) as wire:
                wire.socket.sendall(data)
                assert wire.is_closed_by_peer()
        assert versions_over(other)


def test_a_handshake_that_never_ends_is_ended(walls: Fortress) -> None:
    """C8, C11: connections that say nothing hold a place for a while, not for ever."""
    with ExitStack() as stack:
        stuck = [stack.enter_context(Wire(walls.node.address)) for _ in range(50)]
        stuck[0].socket.sendall(b"\x16\x03\x01\x02\x00")
        with secured(walls) as other:
            assert versions_over(other)
        assert all(wire.is_closed_by_peer() for wire in stuck)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken_with_modern_ciphers(
    walls: Fortress, version: ssl.TLSVersion
) -> None:
    """C8: forward secrecy and authenticated encryption."""
    context = ssl.create_default_context(cafile=walls.ca)
    context.minimum_version = context.maximum_version = version
    with secured(walls, context) as connection:
        cipher = connection.cipher()
        assert cipher is not None
        assert cipher[0].startswith(("ECDHE-", "TLS_"))
        assert "GCM" in cipher[0] or "CHACHA20" in cipher[0]


def test_old_versions_and_weak_ciphers_are_refused(walls: Fortress) -> None:
    """C8: nothing below TLS 1.2, and no cipher without forward secrecy."""
    old = ssl.create_default_context(cafile=walls.ca)
    old.set_ciphers("AES256-SHA:AES128-GCM-SHA256:ECDHE-RSA-AES256-SHA")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured(walls, old)


def test_a_new_certificate_serves_new_connections_and_old_ones_live_on(walls: Fortress) -> None:
    """C8: reload without restart, by the clock alone; a broken file changes nothing."""

    def authority_of_node() -> bytes:
        context = ssl.create_default_context(cafile=walls.ca)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with secured(walls, context) as connection:
            return connection.getpeercert(binary_form=True) or b""

    before = authority_of_node()
    with secured(walls) as old:
        (walls.directory / "node.key").write_text("broken")
        wait_for(lambda: "certificate refused" in walls.node.log.read_text())
        assert authority_of_node() == before
        walls.issue("node", walls.authority.issue_cert("localhost"))
        wait_for(lambda: authority_of_node() != before)
        assert versions_over(old)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_certificate_that_names_nobody_known_lets_nobody_in(walls: Fortress) -> None:
    """C8: a certificate of another authority is refused in the handshake."""
    context = ssl.create_default_context(cafile=walls.ca)
    trustme.CA().issue_cert("x.test").configure_cert(context)
    refusals = (ssl.SSLError, ConnectionError, AssertionError)
    with pytest.raises(refusals), secured(walls, context) as connection:
        assert versions_over(connection)


def test_http_basic_is_refused_with_a_challenge(walls: Fortress) -> None:
    pair = base64.b64encode(b"mallory:wrong").decode()
    with socket.create_connection(walls.node.http_address, timeout=60) as connection:
        head = f"GET /v1/info HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {pair}\r\n\r\n"
        connection.sendall(head.encode())
        answer = ""
        while "\r\n\r\n" not in answer:
            answer += connection.recv(4096).decode()
    assert answer.startswith("HTTP/1.1 401")
    assert "www-authenticate: Basic" in answer
