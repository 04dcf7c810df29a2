"""Sessions of share consumers: begun, continued, replaced and ended."""

from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursors import Cursors
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.errors import InvalidRequest, InvalidShareSessionEpoch, ShareSessionNotFound
from chordmq.fronts.kafka.share_session import EPOCH_MAX, ShareSessions

T = bytes(16)
HERE, THERE = object(), object()


@pytest.fixture
def cursors(tmp_path: Path) -> Cursors:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    broker.close()
    return broker.cursors


def test_each_request_of_a_session_has_the_next_epoch() -> None:
    sessions = ShareSessions()
    session = sessions.enter("g", "m", 0, HERE)
    assert sessions.enter("g", "m", 1, HERE) is session
    assert sessions.enter("g", "m", 2, HERE) is session
    for wrong in (0x7FFF, 2, 4):
        with pytest.raises(InvalidShareSessionEpoch):
            sessions.enter("g", "m", wrong, HERE)
    session.epoch = EPOCH_MAX
    sessions.enter("g", "m", EPOCH_MAX, HERE)
    assert sessions.enter("g", "m", 1, HERE) is session


def test_a_session_that_nobody_began_is_not_found() -> None:
    sessions = ShareSessions()
    for epoch in (1, -1):
        with pytest.raises(ShareSessionNotFound):
            sessions.enter("g", "m", epoch, HERE)


def test_a_consumer_has_a_name_and_a_group() -> None:
    for group, member in [("", "m"), ("g", "")]:
        with pytest.raises(InvalidRequest):
            ShareSessions().enter(group, member, 0, HERE)


def test_a_session_belongs_to_its_connection_and_ends_with_it(cursors: Cursors) -> None:
    sessions = ShareSessions()
    sessions.enter("g", "m", 0, HERE)
    with pytest.raises(ShareSessionNotFound):
        sessions.enter("g", "m", 1, THERE)
    sessions.disconnected(HERE, cursors)
    with pytest.raises(ShareSessionNotFound):
        sessions.enter("g", "m", 1, HERE)


def test_the_end_of_an_old_connection_does_not_end_the_session_of_the_new_one(
    cursors: Cursors,
) -> None:
    sessions = ShareSessions()
    sessions.enter("g", "m", 0, HERE)
    session = sessions.enter("g", "m", 0, THERE)
    sessions.disconnected(HERE, cursors)
    assert sessions.enter("g", "m", 1, THERE) is session


def test_who_was_served_comes_last() -> None:
    session = ShareSessions().enter("g", "m", 0, HERE)
    session.put([(T, 0), (T, 1), (T, 2)])
    session.served((T, 0))
    session.forget([(T, 1)])
    assert list(session.places) == [(T, 2), (T, 0)]
