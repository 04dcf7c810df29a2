"""What security costs: TLS, logins and ACLs, against Apache Kafka with the same."""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks import load
from benchmarks.peers import Peer, free_port, start_chordmq, start_kafka
from benchmarks.session import OURS, PEERS, Profile, Sample
from benchmarks.usage import usage_of
from chordmq.client.connection import Address, ConnectionSettings, connect
from chordmq.client.security import Security

COMMAND = "python -m benchmarks --case secured"
ROUNDS = 3
LOGINS, LOGINS_BEFORE = 300, 100
USER, PASSWORD = "bench", "bench-password"
ADMIN = {"bench-admin": "admin-password"}
ACKS1 = {"acks": "1", "enable.idempotence": "false"}
KAFKA_LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},SSL://127.0.0.1:{tls},SASL_PLAINTEXT://127.0.0.1:{sasl}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},SSL://127.0.0.1:{tls},SASL_PLAINTEXT://127.0.0.1:{sasl}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
"""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of a certificate authority and of a node that it vouches for."""

    authority: Path
    node: Path


def secured(directory: Path, ours: bool, profile: Profile) -> list[Sample]:
    """Measure produce over TLS, the broker's time for a login, and for us what ACLs cost."""
    certificates = _certificates(directory)
    samples = (_ours if ours else _peers)(directory, certificates, profile)
    return samples + (_acl_cost(directory, profile) if ours else [])


def _ours(directory: Path, certificates: Certificates, profile: Profile) -> list[Sample]:
    tls = (f"kafka.tls.certificate={certificates.node}",)
    with _chordmq(directory / "tls", tls) as peer:
        samples = _produce_over_tls(peer, peer.bootstrap, certificates, True, profile)
    with _chordmq(directory / "sasl", ("auth.mechanisms=SCRAM-SHA-512",), users=True) as peer:
        return samples + _logins(peer, peer.bootstrap)


def _peers(directory: Path, certificates: Certificates, profile: Profile) -> list[Sample]:
    ports = {"tls": free_port(), "sasl": free_port()}
    listeners = KAFKA_LISTENERS.format(certificate=certificates.node, **ports).splitlines()
    peer = start_kafka(directory / "kafka", listeners)
    try:
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        admin = AdminClient({"bootstrap.servers": peer.bootstrap})
        admin.alter_user_scram_credentials([upsertion])[USER].result(30)
        tls, sasl = (f"127.0.0.1:{ports[kind]}" for kind in ("tls", "sasl"))
        return _produce_over_tls(peer, tls, certificates, False, profile) + _logins(peer, sasl)
    finally:
        peer.stop()


def _produce_over_tls(
    peer: Peer, address: str, certificates: Certificates, ours: bool, profile: Profile
) -> list[Sample]:
    """Produce 1 KiB messages through librdkafka over TLS."""
    tls = {"security.protocol": "ssl", "ssl.ca.location": str(certificates.authority)}
    load.create_topic(address, "tls", 1, (OURS if ours else PEERS)["os"], tls)
    limit = (profile.produce_s, profile.bytes_max // 1024)
    load.produce(address, "tls", 1024, ACKS1 | tls, (1.0, limit[1]))
    samples = []
    for _ in range(min(ROUNDS, profile.rounds)):
        before = usage_of(peer.pid).cpu_s
        rate = load.produce(address, "tls", 1024, ACKS1 | tls, limit)
        cpu_s = usage_of(peer.pid).cpu_s - before
        cost = (cpu_s, usage_of(peer.pid).rss_mb, COMMAND)
        mb_s = rate.bytes_per_s / 1e6
        name = "produce_tls_1k_acks1_os"
        samples.append(Sample(name, rate.per_s, "msg/s", *cost, goal="tls", mb_s=mb_s))
    return samples


def _logins(peer: Peer, address: str) -> list[Sample]:
    """Log in with SCRAM-SHA-512 again and again, each time on a new connection."""
    asyncio.run(_log_in(address, LOGINS_BEFORE))
    before = usage_of(peer.pid).cpu_s
    asyncio.run(_log_in(address, LOGINS))
    after = usage_of(peer.pid)
    cpu_s = after.cpu_s - before
    per_login_ms = cpu_s / LOGINS * 1000
    cost = (cpu_s, after.rss_mb, COMMAND)
    return [Sample("login_scram.cpu", per_login_ms, "CPU ms/login", *cost)]


async def _log_in(address: str, count: int) -> None:
    host, _, port = address.rpartition(":")
    security = Security(user=USER, password=PASSWORD, mechanism="SCRAM-SHA-512")
    settings = ConnectionSettings(security=security)
    for _ in range(count):
        connection = await connect(Address(host, int(port)), settings)
        connection.close()


def _acl_cost(directory: Path, profile: Profile) -> list[Sample]:
    """Compare a node without security to one that asks its ACLs, with the same load in turn."""
    sasl = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512"}
    ((admin, password),) = ADMIN.items()
    as_admin = sasl | {"sasl.username": admin, "sasl.password": password}
    as_user = sasl | {"sasl.username": USER, "sasl.password": PASSWORD}
    checked = ("auth.mechanisms=SCRAM-SHA-512", f"auth.super_users=User:{admin}")
    limit = (profile.produce_s * 0.6, profile.bytes_max // 100)
    rates: dict[str, list[float]] = {"open": [], "checked": []}
    with (
        _chordmq(directory / "open", ()) as plain,
        _chordmq(directory / "checked", checked, users=True) as asking,
    ):
        load.create_topic(plain.bootstrap, "acl", 1, OURS["os"])
        load.create_topic(asking.bootstrap, "acl", 1, OURS["os"], as_admin)
        _allow(asking.bootstrap, as_admin)
        for round_number in range(ROUNDS + 1):
            for kind, peer, login in (("open", plain, {}), ("checked", asking, as_user)):
                before = usage_of(peer.pid).cpu_s
                rate = load.produce(peer.bootstrap, "acl", 100, ACKS1 | login, limit)
                if round_number:  # the first one warms both up
                    rates[kind].append((usage_of(peer.pid).cpu_s - before) / rate.count)
        used = usage_of(asking.pid)
    cost = statistics.median(rates["checked"]) / statistics.median(rates["open"]) - 1
    return [
        Sample("acl.cost", cost * 100, "% CPU/msg", used.cpu_s, used.rss_mb, COMMAND),
    ]


def _allow(bootstrap: str, as_admin: dict[str, str]) -> None:
    """Give the user what it needs, among rules for others that do not concern it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **as_admin})

    def rule(user: str) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC, "acl", ResourcePatternType.LITERAL, f"User:{user}", "*",
            AclOperation.WRITE, AclPermissionType.ALLOW,
        )  # fmt: skip

    rules = [rule(USER), *(rule(f"other-{number}") for number in range(100))]
    for made in admin.create_acls(rules).values():
        made.result(30)


@contextmanager
def _chordmq(directory: Path, settings: tuple[str, ...], *, users: bool = False) -> Iterator[Peer]:
    if users:
        for name, password in ({USER: PASSWORD} | ADMIN).items():
            subprocess.run(
                [sys.executable, "-m", "chordmq", "users", "add", name,
                 "--data-dir", str(directory / "data")],
                env=os.environ | {"CHORDMQ_NEW_PASSWORD": password},
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
    peer = start_chordmq(directory, settings, is_open=not settings)
    try:
        yield peer
    finally:
        peer.stop()


def _certificates(directory: Path) -> Certificates:
    directory.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    files = Certificates(directory / "ca.pem", directory / "node.pem")
    authority.cert_pem.write_to_path(str(files.authority))
    issued = authority.issue_cert("127.0.0.1", "localhost")
    # Kafka reads private keys in PKCS #8 only.
    key = _pkcs8(issued.private_key_pem.bytes())
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    files.node.write_bytes(key + chain)
    return files


def _pkcs8(key: bytes) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    loaded = form.load_pem_private_key(key, password=None)
    return loaded.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
