"""Checks of ports, of the addresses that clients are told, and of who could listen in."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from chordmq.broker.security.auth_settings import SCRAM_256, SCRAM_512
from chordmq.cli.diagnosis.finding import FAIL, OK, WARN, Finding, Place
from chordmq.cli.identity import connection
from chordmq.config import is_loopback, listeners

CONNECT_TIMEOUT_S = 2.0
ANSWER_BYTES_MAX = 256
COMMAND_SIZE_MAX = 400
LISTENING = "0A"
TITLES = {"kafka": "Kafka port", "http": "HTTP port"}
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 (looked for, not listened on)


def ports(place: Place) -> Iterator[Finding]:
    """Check that each port is free, or find out who answers there."""
    peers = {"peer": place.config.peer} if place.config.cluster.is_on else {}
    for name, settings in (listeners(place.config) | peers).items():
        port, title = settings.port, TITLES.get(name, f"{name} port")
        if not port or getattr(settings, "enabled", "on") == "off":
            continue
        try:
            with socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S):
                pass
        except OSError:
            yield _bindable(title, port, f"{name}.port")
            continue
        holder = holder_of(port)
        who = _peer(name, port) or ("a node" if is_node(holder) else None)
        if who:
            yield Finding(title, OK, f"{port}: {who} answers")
        else:
            fix = f"stop the program that uses it, or --set {name}.port=..."
            yield Finding(title, FAIL, f"{port} is taken by {holder or 'another program'}", fix)


def _bindable(title: str, port: int, setting: str) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            fix = f"choose another: --set {setting}=..."
            return Finding(title, FAIL, f"{port}: {error.strerror}", fix)
    return Finding(title, OK, f"{port} is free")


def holder_of(port: int) -> str:
    """Return the command and process that listen on a port; nothing if we may not know."""
    sockets = set(_listening(port))
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours to look at
            if any(_target(link) in sockets for link in (process / "fd").iterdir()):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                return f"{command[:COMMAND_SIZE_MAX].strip()} (process {process.name})"
    return ""


def is_node(holder: str) -> bool:
    """Return whether a command is one of ours, which says more than where it lies."""
    return any(Path(word).name == "chordmq" for word in holder.split()[:3])


def _listening(port: int) -> Iterator[str]:
    """Yield the sockets that listen on a port, as links to them are written."""
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if table.exists():
            for row in (line.split() for line in table.read_text().splitlines()[1:]):
                if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port:
                    yield f"socket:[{row[9]}]"


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed meanwhile
        return ""


def _peer(name: str, port: int) -> str | None:
    if name == "kafka":
        return _kafka_peer(f"127.0.0.1:{port}")
    return _http_peer(port) if name == "http" else None


def _http_peer(port: int) -> str | None:
    """Return what answers on an HTTP port, if it is one of ours."""
    with socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S) as peer:
        peer.settimeout(CONNECT_TIMEOUT_S)
        try:
            peer.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = peer.recv(ANSWER_BYTES_MAX)
        except OSError:
            return None
    ours = answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
    return "a node (ready)" if ours and b" 200" in answer[:13] else "a node" if ours else None


def _kafka_peer(bootstrap: str) -> str | None:
    """Return what answers on a Kafka port, if it speaks Kafka."""
    import uvloop

    from chordmq.client.admin import Admin
    from chordmq.client.errors import ClientError

    async def ask() -> str:
        async with Admin(bootstrap, connection(CONNECT_TIMEOUT_S)) as admin:
            return f"cluster {admin.cluster.cluster_id}"

    try:
        return uvloop.run(ask())
    except ClientError:
        return None


def advertised(place: Place) -> Iterator[Finding]:
    """Check that the addresses that nodes tell their clients can be reached from here."""
    import uvloop

    from chordmq.client.admin import Admin
    from chordmq.client.errors import CannotConnect, ClientError

    async def ask() -> list[Finding]:
        findings = []
        async with Admin(place.bootstrap, connection(CONNECT_TIMEOUT_S)) as admin:
            for node_id, address in admin.cluster.nodes.items():
                try:
                    await admin.cluster.node(node_id)
                    findings.append(Finding("advertised address", OK, f"{address} answers"))
                except CannotConnect as error:
                    fix = "set kafka.advertised_host to a name that clients can reach"
                    findings.append(Finding("advertised address", FAIL, str(error), fix))
        return findings

    try:
        yield from uvloop.run(ask())
    except CannotConnect:
        yield Finding("advertised address", OK, f"no node runs at {place.bootstrap} to ask")
    except (ClientError, ValueError) as error:
        yield Finding("advertised address", WARN, str(error), "look at the node's log")


def told_addresses(place: Place) -> Iterator[Finding]:
    """Check that clients of other machines are not told an address of their own machine."""
    config = place.config
    for name, settings in {"kafka": config.kafka, "peer": config.peer}.items():
        if is_loopback(settings.host):
            continue
        told = settings.advertised_host or settings.host
        if told in WILDCARDS or is_loopback(told):
            fix = f"--set {name}.advertised_host=... with a name that clients can reach"
            detail = f"{name} listens on {settings.host} and tells others to come to {told}"
            yield Finding("advertised address", FAIL, detail, fix)


def exposure(place: Place) -> Iterator[Finding]:
    """Check that no password crosses the network for everybody to read."""
    offered = place.config.auth.offered
    if not offered:
        return
    for name, settings in listeners(place.config).items():
        if is_loopback(settings.host) or settings.tls.is_on:
            continue
        if name == "kafka" and set(offered) <= {SCRAM_256, SCRAM_512}:
            continue  # proves the password without sending it
        fix = f"--set {name}.tls.certificate=..., or listen on 127.0.0.1 behind a proxy with TLS"
        detail = f"{name} takes passwords on {settings.host}:{settings.port} without TLS"
        yield Finding("exposure", WARN, detail, fix)
