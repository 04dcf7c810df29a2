"""The table of a login's states: every way through it, and no other."""

import itertools

import pytest

from chordmq.broker.security.sasl import Exchange, Step
from chordmq.errors import IllegalSaslState
from chordmq.fronts.kafka.sasl_session import (
    ANSWERED,
    API_VERSIONS,
    NEXT,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Event,
    SaslSession,
    State,
)

METADATA = 3


class Silent(Exchange):
    """An exchange that is never asked."""

    def __init__(self) -> None: ...

    async def _step(self, text: str) -> Step:
        raise NotImplementedError


def answered(session: SaslSession, now_s: float = 0) -> set[int]:
    asked = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA)
    return {key for key in asked if session.answers(key, now_s)}


def chosen(session: SaslSession, *, is_bare: bool = False, mechanism: str = "PLAIN") -> SaslSession:
    session.choose(mechanism, Silent(), is_bare=is_bare)
    return session


def test_a_stranger_is_answered_only_what_leads_to_a_login() -> None:
    """C10: ApiVersions and SaslHandshake, then SaslAuthenticate, then all."""
    session = SaslSession(is_open=False)
    assert answered(session) == {API_VERSIONS, SASL_HANDSHAKE}
    chosen(session)
    assert answered(session) == {SASL_AUTHENTICATE}
    session.prove(100.0)
    assert METADATA in answered(session)


def test_after_a_failure_nothing_is_answered() -> None:
    session = chosen(SaslSession(is_open=False))
    session.refuse()
    assert answered(session) == set()
    with pytest.raises(IllegalSaslState):
        chosen(session)


def test_an_ended_session_takes_only_a_new_handshake() -> None:
    """C10: session lifetime (KIP-368)."""
    session = chosen(SaslSession(is_open=False))
    session.prove(100.0)
    assert METADATA in answered(session, 99.9)
    assert answered(session, 100.0) == {SASL_HANDSHAKE}
    chosen(session)
    assert session.is_again
    assert answered(session, 100.0) == {SASL_AUTHENTICATE}
    session.prove(200.0)
    assert METADATA in answered(session, 150.0)


def test_another_login_uses_the_mechanism_of_the_first() -> None:
    """C10: as Kafka demands of re-authentication."""
    session = chosen(SaslSession(is_open=False))
    session.prove(100.0)
    with pytest.raises(IllegalSaslState):
        chosen(session, mechanism="SCRAM-SHA-256")
    assert session.state is State.OVER


def test_a_client_known_by_its_certificate_may_still_log_in() -> None:
    """C8: its first login, by any mechanism."""
    session = SaslSession(is_open=True)
    assert METADATA in answered(session)
    chosen(session)
    assert not session.is_again
    session.prove(1.0)
    assert session.state is State.OPEN


def test_bare_messages_follow_handshake_zero_once() -> None:
    session = chosen(SaslSession(is_open=False), is_bare=True)
    assert session.state is State.CHOSEN_BARE
    assert answered(session) == set()
    session.prove(1.0)
    with pytest.raises(IllegalSaslState):
        chosen(session, is_bare=True)


def test_every_state_has_its_answers_and_nothing_leaves_the_end() -> None:
    assert set(ANSWERED) == set(State)
    assert not [pair for pair in NEXT if pair[0] is State.OVER]
    for state, event in itertools.product(State, Event):
        if event is Event.REFUSED and state is not State.OVER:
            assert NEXT[state, event] is State.OVER
        if event is Event.PROVED and (state, event) in NEXT:
            assert NEXT[state, event] is State.OPEN
