"""Logins that end before their connections do."""

from pathlib import Path

import pytest

from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.auth_settings import AuthSettings
from chordmq.broker.security.logins import TAKEN_BACK
from chordmq.broker.security.principal import Login, Principal
from chordmq.broker.security.users import Users
from chordmq.clock import SystemClock
from chordmq.cluster.image import Image
from chordmq.storage.metadata.database import Database

HERE = "127.0.0.1"


@pytest.fixture
def judge(tmp_path: Path) -> Authenticator:
    users = Users(Image.local(Database(tmp_path / "meta.db"), SystemClock()), SystemClock())
    return Authenticator(AuthSettings(mechanisms="PLAIN,SCRAM-SHA-512"), users, SystemClock())


async def test_each_proof_ends_the_logins_it_has_made_and_no_others(judge: Authenticator) -> None:
    """C10: a new password, a revoked token and a deleted user are felt on open connections."""
    ended: list[str] = []

    def hold(name: str, login: Login) -> None:
        judge.logins.hold(name, login, lambda _: ended.append(name))

    await judge.users.add("alice", "wonderland")
    await judge.users.add("bob", "builder")
    token, text = await judge.users.add_token("alice")
    _, text_of_other = await judge.users.add_token("alice")
    hold("password", await judge.check_password("alice", "wonderland", HERE))
    hold("token", await judge.check_token(text, HERE))
    hold("other token", await judge.check_token(text_of_other, HERE))
    hold("bob", await judge.check_password("bob", "builder", HERE))
    hold("certificate", Login(Principal("alice")))
    await judge.users.set_admin("alice", True)
    assert not ended
    await judge.users.set_password("alice", "looking-glass")
    assert ended == ["password"]
    await judge.users.remove_token("alice", token.id)
    assert ended == ["password", "token"]
    await judge.users.remove("alice")
    assert ended == ["password", "token", "other token"]
    assert len(judge.logins) == 1
    judge.logins.release("bob")
    judge.logins.release("bob")
    await judge.users.remove("bob")
    assert len(ended) == 3


async def test_a_password_that_changes_while_it_is_proved_lets_nobody_in(
    judge: Authenticator,
) -> None:
    await judge.users.add("alice", "wonderland")
    login = await judge.check_password("alice", "wonderland", HERE)
    await judge.users.set_password("alice", "looking-glass")
    reasons: list[str] = []
    judge.logins.hold("late", login, reasons.append)
    assert reasons == [TAKEN_BACK]
    assert len(judge.logins) == 0


async def test_a_later_login_takes_the_place_of_the_one_before(judge: Authenticator) -> None:
    """C10: who proves itself again lives by the new proof."""
    await judge.users.add("alice", "wonderland")
    _, first = await judge.users.add_token("alice")
    reasons: list[str] = []
    judge.logins.hold("one", await judge.check_token(first, HERE), reasons.append)
    again = await judge.check_password("alice", "wonderland", HERE)
    judge.logins.hold("one", again, reasons.append)
    await judge.users.remove_token("alice", judge.users.tokens("alice")[0].id)
    assert not reasons
