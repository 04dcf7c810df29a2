"""Each SASL mechanism against an independent client's messages."""

from pathlib import Path

import pytest
from scramp import ScramClient, ScramException

from chordmq.broker.security.failed_logins import FREE_PER_USER
from chordmq.broker.security.sasl import MESSAGE_SIZE_MAX, Step
from chordmq.errors import AuthenticationFailed
from tests.broker.security.accounts import authenticator_at

HERE = "10.0.0.1"
SCRAM = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.mark.parametrize("mechanism", SCRAM)
async def test_scram_proves_both_sides(tmp_path: Path, mechanism: str) -> None:
    """C10: also for names with an equals sign, a comma and letters beyond ASCII."""
    with authenticator_at(tmp_path) as judge:
        for name in ("alice", "a=b,c", "Jürgen"):
            await judge.users.add(name, "s3cret")
            client = ScramClient([mechanism], name, "s3cret")
            exchange = judge.begin(mechanism, HERE)
            first = await exchange.step(client.get_client_first().encode())
            assert first.login is None
            client.set_server_first(first.reply.decode())
            final = await exchange.step(client.get_client_final().encode())
            client.set_server_final(final.reply.decode())
            assert final.login is not None
            assert final.login.principal.name == name


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("nobody", "s3cret")])
async def test_scram_tells_a_wrong_password_and_an_unknown_user_the_same(
    tmp_path: Path, mechanism: str, name: str, password: str
) -> None:
    """C10: both get a salt, and both fail at the end."""
    with authenticator_at(tmp_path) as judge:
        await judge.users.add("alice", "s3cret")
        client = ScramClient([mechanism], name, password)
        exchange = judge.begin(mechanism, HERE)
        first = await exchange.step(client.get_client_first().encode())
        client.set_server_first(first.reply.decode())
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            await exchange.step(client.get_client_final().encode())
        assert judge.counts[mechanism, "failed"] == 1


async def test_a_recorded_scram_exchange_proves_nothing(tmp_path: Path) -> None:
    """C10: a replayed message is refused, on a new connection and on the same."""
    with authenticator_at(tmp_path) as judge:
        await judge.users.add("alice", "s3cret")
        client = ScramClient(["SCRAM-SHA-256"], "alice", "s3cret")
        exchange = judge.begin("SCRAM-SHA-256", HERE)
        first = client.get_client_first().encode()
        client.set_server_first((await exchange.step(first)).reply.decode())
        final = client.get_client_final().encode()
        await exchange.step(final)
        with pytest.raises(AuthenticationFailed):
            await exchange.step(final)
        replay = judge.begin("SCRAM-SHA-256", HERE)
        again = await replay.step(first)
        with pytest.raises(ScramException):
            client.set_server_first(again.reply.decode())
        with pytest.raises(AuthenticationFailed):
            await replay.step(final)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=alice",
        b"n,a=bob,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=ali=ce,r=abc",
        b"x" * (MESSAGE_SIZE_MAX + 1),
    ],
)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
async def test_a_message_against_the_rules_is_a_failed_login(
    tmp_path: Path, mechanism: str, message: bytes
) -> None:
    """C10, C11: never anything else than a refusal."""
    with authenticator_at(tmp_path) as judge:
        await judge.users.add("alice", "s3cret")
        with pytest.raises(AuthenticationFailed):
            await judge.begin(mechanism, HERE).step(message)


async def test_scram_waits_after_too_many_failures(tmp_path: Path) -> None:
    with authenticator_at(tmp_path) as judge:
        await judge.users.add("alice", "s3cret")
        for _ in range(FREE_PER_USER + 1):
            judge.failed("SCRAM-SHA-256", "alice", HERE, "test")
        client = ScramClient(["SCRAM-SHA-256"], "alice", "s3cret")
        with pytest.raises(AuthenticationFailed, match="try again"):
            await judge.begin("SCRAM-SHA-256", HERE).step(client.get_client_first().encode())


async def test_plain_takes_name_and_password_and_lets_nobody_act_for_another(
    tmp_path: Path,
) -> None:
    """C10: RFC 4616."""
    with authenticator_at(tmp_path) as judge:
        await judge.users.add("alice", "s3cret")

        async def say(message: bytes) -> Step:
            return await judge.begin("PLAIN", HERE).step(message)

        for message in (b"\0alice\0s3cret", b"alice\0alice\0s3cret"):
            step = await say(message)
            assert step.login is not None
            assert (step.reply, step.login.principal.name) == (b"", "alice")
        for message in (
            b"bob\0alice\0s3cret",
            b"\0alice\0s3cret\0",
            b"\0alice\0",
            b"alice\0s3cret",
        ):
            with pytest.raises(AuthenticationFailed):
                await say(message)
