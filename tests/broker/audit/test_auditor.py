"""The audit trail of a running node: what is written, when it is signed, how it goes on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chordmq.broker.audit import auditor
from chordmq.broker.audit.auditor import AuditSettings
from chordmq.broker.audit.chain import Verdict, verify
from chordmq.broker.audit.files import kept_heads, load_public_key, records_in
from chordmq.broker.security.acl import Kind, Operation, Rule
from chordmq.broker.security.auth_settings import AuthSettings
from chordmq.client.admin import Admin
from chordmq.client.connection import ConnectionSettings
from chordmq.client.errors import BrokerRefused, ClientError
from chordmq.client.security import Security
from chordmq.clock import SystemClock
from chordmq.config import Config
from chordmq.errors import CannotStart, DiskFull
from chordmq.fronts.admin.settings import HttpSettings
from chordmq.fronts.amqp.settings import AmqpSettings
from chordmq.fronts.framed.settings import FramedSettings
from chordmq.fronts.listener import ListenerSettings
from chordmq.fronts.mqtt.settings import MqttSettings
from chordmq.fronts.provider.settings import ProviderSettings
from chordmq.fronts.rpc.settings import CapnpSettings, GrpcSettings
from chordmq.node import Node, running


@asynccontextmanager
async def audited(
    directory: Path, auth: AuthSettings | None = None, **settings: Any
) -> AsyncIterator[Node]:
    config = Config(
        auth=auth or AuthSettings(),
        data_dir=directory,
        kafka=ListenerSettings(port=0),
        http=HttpSettings(port=0),
        framed=FramedSettings(port=0),
        provider=ProviderSettings(port=0),
        mqtt=MqttSettings(port=0),
        amqp=AmqpSettings(port=0),
        capnp=CapnpSettings(port=0),
        grpc=GrpcSettings(port=0),
        audit=AuditSettings(enabled="on", **settings),
    )
    async with running(config, SystemClock()) as node:
        yield node


def entries(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(stored.text) for stored in records_in(directory)]


def checked(directory: Path) -> Verdict:
    key = load_public_key(directory / "audit/public.pem")
    return verify(records_in(directory), kept_heads(directory), key)


def note(node: Node, obj: str, result: str = "ok") -> None:
    node.broker.audit.record(who="User:a", host="h", act="topic.create", obj=obj, result=result)


async def test_a_node_writes_its_life_and_what_it_is_told_and_signs_the_end(tmp_path: Path) -> None:
    """E13: the trail survives restarts as one chain, and nothing is left unsigned."""
    for _ in range(2):
        async with audited(tmp_path) as node:
            note(node, "orders")
    acts = [entry["act"] for entry in entries(tmp_path)]
    assert acts == ["node.start", "topic.create", "node.stop", "head"] * 2
    verdict = checked(tmp_path)
    assert verdict.fault is None
    assert verdict.unsigned == 1  # the last head itself


async def test_logins_denials_and_changes_of_rights_are_written_with_who_and_whence(
    tmp_path: Path,
) -> None:
    """E13: every login, every refusal and every change of permissions; never a password."""
    auth = AuthSettings(mechanisms="SCRAM-SHA-512,PLAIN", super_users="User:root")
    async with audited(tmp_path, auth=auth) as node:
        assert node.authenticator is not None
        for user in ("root", "eve"):
            await node.authenticator.users.add(user, f"{user}-secret")
        async with Admin(address(node), as_user("root", "root-secret")) as admin:
            await admin.create_topic("orders", 1, 1, {})
        with pytest.raises(BrokerRefused):
            async with Admin(address(node), as_user("eve", "eve-secret")) as admin:
                await admin.create_topic("loot", 1, 1, {})
        with pytest.raises(ClientError):
            async with Admin(address(node), as_user("eve", "guess-secret")):
                pass
        rule = Rule(kind=Kind.TOPIC, name="loot", principal="User:eve", operation=Operation.ALL)
        await node.broker.permissions.add_rules([rule], by="User:root")
    found = [(e["who"], e["act"], e["result"]) for e in entries(tmp_path)]
    assert ("User:root", "login SCRAM-SHA-512", "ok") in found
    assert ("User:root", "topic.create", "ok") in found
    assert ("User:eve", "create", "denied") in found
    assert ("User:root", "acl.set", "ok") in found
    failed = [result for who, act, result in found if act.startswith("login") and result != "ok"]
    assert failed
    assert failed[0].startswith("failed: ")
    assert {e["host"] for e in entries(tmp_path) if e["act"].startswith("login")} == {"127.0.0.1"}
    assert "secret" not in json.dumps(entries(tmp_path))


def address(node: Node) -> str:
    return f"127.0.0.1:{node.kafka.port}"


def as_user(name: str, password: str) -> ConnectionSettings:
    return ConnectionSettings(security=Security(user=name, password=password))


async def test_many_events_are_joined_into_few_writes(tmp_path: Path) -> None:
    async with audited(tmp_path) as node:
        for number in range(5_000):
            note(node, f"t{number}")
    found = entries(tmp_path)
    assert [entry["obj"] for entry in found if entry["act"] == "topic.create"] == [
        f"t{number}" for number in range(5_000)
    ]
    assert checked(tmp_path).fault is None


async def test_the_head_is_signed_after_a_time_and_after_a_number_of_records(
    tmp_path: Path,
) -> None:
    async with audited(tmp_path, head_interval_s=0.05) as node:
        note(node, "orders")
        while "head" not in [entry["act"] for entry in entries(tmp_path)]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    async with audited(tmp_path, head_records=10, head_interval_s=1e6) as node:
        for _ in range(5):
            for number in range(10):
                note(node, f"t{number}")
            await asyncio.sleep(0)
        while entries(tmp_path)[-1]["act"] != "head":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert checked(tmp_path).fault is None


async def test_what_the_queue_cannot_hold_is_counted_in_the_trail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "QUEUE_MAX", 100)
    async with audited(tmp_path) as node:
        for number in range(1_000):
            note(node, f"t{number}")
        assert node.broker.audit.dropped > 0
    found = {entry["act"]: entry for entry in entries(tmp_path)}
    assert found["audit.dropped"]["obj"] == f"{node.broker.audit.dropped} events"


async def test_refusals_that_repeat_are_summed_up(tmp_path: Path) -> None:
    """E13: an attacker cannot flood the trail."""
    async with audited(tmp_path) as node:
        for _ in range(10_000):
            note(node, "secret", "denied")
    results = [entry["result"] for entry in entries(tmp_path) if entry["obj"] == "secret"]
    counts = [1 if one == "denied" else int(one.split()[1]) for one in results]
    assert sum(counts) == 10_000
    assert len(results) < 20, "a few lines for each second that this took"


async def test_a_full_disk_delays_the_trail_and_loses_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "RETRY_S", 0.01)
    async with audited(tmp_path) as node:
        while not node.broker.audit.written:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        append = node.broker.append_records

        async def full(*_: object, **__: object) -> int:
            raise DiskFull("no room")

        monkeypatch.setattr(node.broker, "append_records", full)
        note(node, "first")
        note(node, "second")
        await asyncio.sleep(0.05)
        monkeypatch.setattr(node.broker, "append_records", append)
    objects = [entry["obj"] for entry in entries(tmp_path) if entry["act"] == "topic.create"]
    assert objects == ["first", "second"]
    assert checked(tmp_path).fault is None


async def test_a_trail_cut_while_the_node_was_down_is_told_and_found_for_ever(
    tmp_path: Path,
) -> None:
    """E13: also after the node has gone on writing, and signing, behind the cut."""
    async with audited(tmp_path) as node:
        for number in range(10):
            note(node, f"t{number}")
    trail = tmp_path / "topics/__audit-0"
    (segment,) = trail.glob("*.log")
    async with audited(tmp_path / "other") as node:
        pass  # a shorter trail, of another node
    (shorter,) = (tmp_path / "other/topics/__audit-0").glob("*.log")
    segment.write_bytes(shorter.read_bytes())
    async with audited(tmp_path) as node:
        note(node, "later")
    assert "audit.check" in [entry["act"] for entry in entries(tmp_path)]
    assert checked(tmp_path).fault is not None


async def test_a_key_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    key = tmp_path / "signing.pem"
    key.write_text("not a key")
    with pytest.raises(CannotStart, match=r"audit\.key_file .*signing\.pem"):
        async with audited(tmp_path / "data", key_file=str(key)):
            pass


async def test_the_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    async with audited(tmp_path):
        pass
    assert (tmp_path / "audit/key.pem").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700


async def test_without_authentication_there_is_no_trail_unless_asked_for(tmp_path: Path) -> None:
    config = Config(
        data_dir=tmp_path,
        kafka=ListenerSettings(port=0),
        http=HttpSettings(port=0),
        framed=FramedSettings(port=0),
        provider=ProviderSettings(port=0),
        mqtt=MqttSettings(port=0),
        amqp=AmqpSettings(port=0),
        capnp=CapnpSettings(port=0),
        grpc=GrpcSettings(port=0),
    )
    async with running(config, SystemClock()) as node:
        assert not node.broker.audit.is_on
        assert node.broker.topics.find("__audit") is None
