"""Users: durable, and nothing in the file that opens a door."""

from pathlib import Path

import pytest

from chordmq.broker.security.credentials import derive
from chordmq.broker.security.users import TOKENS_PER_USER_MAX, Users, check_name
from chordmq.clock import ManualClock
from chordmq.errors import InvalidRequest, UnknownToken, UnknownUser, UserExists
from tests.broker.security.accounts import users_at


async def test_users_and_tokens_are_there_after_a_restart(tmp_path: Path) -> None:
    """C10: what a call returned from is on disk."""
    with users_at(tmp_path) as users:
        await users.add("alice", "s3cret", is_admin=True)
        await users.add("bob", None)
        token, text = await users.add_token("bob", label="sensor 7")
        secret = users.secret
    with users_at(tmp_path) as users:
        assert [(user.name, user.is_admin) for user in users] == [("alice", True), ("bob", False)]
        assert sorted(users.get("alice").credentials) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert users.token(text) == token
        assert users.secret == secret


async def test_the_database_holds_neither_passwords_nor_tokens(tmp_path: Path) -> None:
    """C10, E13: salted and hashed at rest."""
    with users_at(tmp_path) as users:
        await users.add("alice", "correct horse battery")
        _, text = await users.add_token("alice")
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())  # noqa: ASYNC240
    assert b"alice" in stored
    assert b"correct horse" not in stored
    assert text.encode() not in stored
    assert text.removeprefix("cmq_").encode() not in stored


async def test_a_name_is_taken_once(tmp_path: Path) -> None:
    with users_at(tmp_path) as users:
        await users.add("alice", "x")
        with pytest.raises(UserExists):
            await users.add("alice", "y")


@pytest.mark.parametrize("name", ["", "a\0b", "line\nbreak", "x" * 256])
def test_a_name_that_could_deceive_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_name(name)


@pytest.mark.parametrize("password", ["", "x" * 2000])
async def test_a_password_has_a_length(tmp_path: Path, password: str) -> None:
    with users_at(tmp_path) as users:
        with pytest.raises(InvalidRequest):
            await users.add("alice", password)
        assert users.find("alice") is None


async def test_a_deleted_user_takes_its_tokens_along(tmp_path: Path) -> None:
    with users_at(tmp_path) as users:
        await users.add("alice", "x")
        _, text = await users.add_token("alice")
        await users.remove("alice")
        assert users.token(text) is None
        with pytest.raises(UnknownUser):
            await users.remove("alice")
    with users_at(tmp_path) as users:
        assert users.token(text) is None


async def test_a_token_ends_by_time_or_by_revocation(tmp_path: Path) -> None:
    """B7, E13: a token lets in until it ends."""
    clock = ManualClock()
    with users_at(tmp_path, clock) as users:
        await users.add("alice", None)
        _, short = await users.add_token("alice", lifetime_ms=1000)
        lasting, text = await users.add_token("alice")
        assert users.token(short) is not None
        clock.advance(1000)
        assert users.token(short) is None
        assert users.token(text) is not None
        await users.remove_token("alice", lasting.id)
        assert users.token(text) is None
        with pytest.raises(UnknownToken):
            await users.remove_token("alice", lasting.id)


async def test_a_user_has_only_so_many_tokens(tmp_path: Path) -> None:
    with users_at(tmp_path) as users:
        await users.add("alice", None)
        for _ in range(TOKENS_PER_USER_MAX):
            await users.add_token("alice")
        with pytest.raises(InvalidRequest):
            await users.add_token("alice")


async def test_a_user_made_by_credentials_goes_with_the_last_of_them(tmp_path: Path) -> None:
    """C10: as Kafka's AlterUserScramCredentials has it."""
    with users_at(tmp_path) as users:
        await users.set_credentials("carol", {"SCRAM-SHA-256": derive("SCRAM-SHA-256", "x")})
        await users.set_credentials("carol", {"SCRAM-SHA-512": derive("SCRAM-SHA-512", "x")})
        await users.set_credentials("carol", {"SCRAM-SHA-256": None})
        assert list(users.get("carol").credentials) == ["SCRAM-SHA-512"]
        await users.set_credentials("carol", {"SCRAM-SHA-512": None})
        assert users.find("carol") is None


async def test_an_administrator_stays_one_with_a_new_password(tmp_path: Path) -> None:
    with users_at(tmp_path) as users:
        await users.add("alice", "x", is_admin=True)
        before = users.get("alice").credentials
        await users.set_password("alice", "y")
        assert users.get("alice").is_admin
        assert users.get("alice").credentials != before
        await users.set_admin("alice", False)
        assert not users.get("alice").is_admin


async def test_changes_of_nobody_are_refused(tmp_path: Path) -> None:
    with users_at(tmp_path) as users:
        for change in (_password, _admin, _token):
            with pytest.raises(UnknownUser):
                await change(users)


async def _password(users: Users) -> None:
    await users.set_password("nobody", "x")


async def _admin(users: Users) -> None:
    await users.set_admin("nobody", True)


async def _token(users: Users) -> None:
    await users.add_token("nobody")
