"""Passwords and tokens before the judge."""

from pathlib import Path

import pytest

from chordmq.broker.security import credentials
from chordmq.broker.security.accounts import Credential
from chordmq.broker.security.auth import REFUSAL, Attempt
from chordmq.broker.security.auth_settings import AuthSettings, LdapSettings
from chordmq.broker.security.failed_logins import FREE_PER_USER
from chordmq.broker.security.principal import ANONYMOUS, Principal
from chordmq.clock import ManualClock
from chordmq.errors import AuthenticationFailed, InvalidSetting, UnsupportedSaslMechanism
from tests.broker.security.accounts import ALL, authenticator_at

HERE = "10.0.0.1"


async def test_the_right_password_lets_in_and_nothing_else_does(tmp_path: Path) -> None:
    """C10: wrong password, unknown user and empty ones get one and the same answer."""
    with authenticator_at(tmp_path) as judge:
        await judge.users.add("alice", "s3cret")
        login = await judge.check_password("alice", "s3cret", HERE)
        assert login.principal == Principal("alice")
        for name, password in [("alice", "wrong"), ("bob", "s3cret"), ("alice", ""), ("", "x")]:
            with pytest.raises(AuthenticationFailed) as refused:
                await judge.check_password(name, password, HERE)
            assert str(refused.value) == REFUSAL


async def test_a_remembered_password_ends_with_its_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10: the second login is cheap, and an old password is worth nothing at once."""
    asked: list[str] = []
    fits = credentials.fits

    def counting(mechanism: str, password: str, credential: Credential) -> bool:
        asked.append(password)
        return fits(mechanism, password, credential)

    monkeypatch.setattr(credentials, "fits", counting)
    with authenticator_at(tmp_path) as judge:
        await judge.users.add("alice", "old")
        for _ in range(3):
            await judge.check_password("alice", "old", HERE)
        assert asked == ["old"]
        await judge.users.set_password("alice", "new")
        with pytest.raises(AuthenticationFailed):
            await judge.check_password("alice", "old", HERE)
        await judge.check_password("alice", "new", HERE)
        await judge.users.remove("alice")
        with pytest.raises(AuthenticationFailed):
            await judge.check_password("alice", "new", HERE)


async def test_who_guesses_has_to_wait_even_with_the_right_password(tmp_path: Path) -> None:
    """C10: back-off before the password is looked at."""
    clock = ManualClock()
    with authenticator_at(tmp_path, clock=clock) as judge:
        await judge.users.add("alice", "s3cret")
        for _ in range(FREE_PER_USER + 1):
            with pytest.raises(AuthenticationFailed):
                await judge.check_password("alice", "wrong", HERE)
        with pytest.raises(AuthenticationFailed, match="try again in 1 s"):
            await judge.check_password("alice", "s3cret", HERE)
        await judge.check_password("alice", "s3cret", "10.0.0.2")
        clock.advance(1000)
        await judge.check_password("alice", "s3cret", HERE)
        assert judge.counts["PLAIN", "failed"] == FREE_PER_USER + 1
        assert judge.counts["PLAIN", "delayed"] == 1


async def test_a_token_stands_for_its_user_alone_or_as_the_users_password(tmp_path: Path) -> None:
    """B7, E13: tokens authenticate, until they are revoked."""
    with authenticator_at(tmp_path) as judge:
        await judge.users.add("alice", None)
        await judge.users.add("bob", None)
        token, text = await judge.users.add_token("alice", lifetime_ms=60_000)
        login = await judge.check_token(text, HERE)
        assert (login.principal.name, login.expires_ms) == ("alice", token.expires_ms)
        assert (await judge.check_password("alice", text, HERE)).principal.name == "alice"
        with pytest.raises(AuthenticationFailed):
            await judge.check_password("bob", text, HERE)
        await judge.users.remove_token("alice", token.id)
        with pytest.raises(AuthenticationFailed):
            await judge.check_token(text, HERE)
        with pytest.raises(AuthenticationFailed):
            await judge.check_token("some.jwt.token", HERE)


async def test_who_may_do_everything(tmp_path: Path) -> None:
    """A10: administrators and super users; everybody while nobody has to log in."""
    settings = AuthSettings(mechanisms=ALL, super_users="User:root; User:CN=ops,O=x ;")
    with authenticator_at(tmp_path, settings) as judge:
        await judge.users.add("admin", "x", is_admin=True)
        await judge.users.add("alice", "x")

        assert judge.is_super(Principal("admin"))
        assert judge.is_super(Principal("root"))
        assert judge.is_super(Principal("CN=ops,O=x"))
        assert not judge.is_super(Principal("alice"))
        assert not judge.is_super(ANONYMOUS)
        assert not judge.is_super(Principal("ANONYMOUS"))
        await judge.users.set_admin("admin", False)
        assert not judge.is_super(Principal("admin"))
    with authenticator_at(tmp_path, AuthSettings()) as judge:
        assert judge.is_super(ANONYMOUS)


async def test_watchers_hear_of_every_login(tmp_path: Path) -> None:
    heard: list[Attempt] = []
    with authenticator_at(tmp_path) as judge:
        judge.watchers.append(heard.append)
        await judge.users.add("alice", "s3cret")
        await judge.check_password("alice", "s3cret", HERE)
        with pytest.raises(AuthenticationFailed):
            await judge.check_password("alice", "hunter2", HERE)
    assert [(one.user, one.address, bool(one.reason)) for one in heard] == [
        ("alice", HERE, False),
        ("alice", HERE, True),
    ]
    assert "hunter2" not in repr(heard)


async def test_only_what_is_offered_can_be_used(tmp_path: Path) -> None:
    with authenticator_at(tmp_path, AuthSettings(mechanisms="SCRAM-SHA-512")) as judge:
        for mechanism in ("PLAIN", "GSSAPI", "", "scram-sha-512"):
            with pytest.raises(UnsupportedSaslMechanism):
                judge.begin(mechanism, HERE)


@pytest.mark.parametrize(
    "settings",
    [
        AuthSettings(mechanisms="GSSAPI"),
        AuthSettings(mechanisms="OAUTHBEARER"),
        AuthSettings(mechanisms=ALL, ldap=LdapSettings(url="ldap://x")),
        AuthSettings(mechanisms=ALL, ldap=LdapSettings(url="http://x", search_base="o=x")),
        AuthSettings(
            mechanisms="SCRAM-SHA-256", ldap=LdapSettings(url="ldap://x", search_base="o=x")
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: AuthSettings) -> None:
    with pytest.raises(InvalidSetting):
        settings.check()


def test_settings_print_without_the_password_of_the_service_account() -> None:
    """E13: a configuration may be logged."""
    assert "hunter2" not in repr(AuthSettings(ldap=LdapSettings(search_password="hunter2")))


async def test_where_logging_in_is_a_choice_strangers_have_no_rights_of_their_own(
    tmp_path: Path,
) -> None:
    """C9: default deny as soon as authentication is on."""
    with authenticator_at(tmp_path, AuthSettings(mechanisms=ALL, required=False)) as judge:
        assert not judge.is_super(ANONYMOUS)
