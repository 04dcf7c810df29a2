"""Groups from one protocol to the other, as data."""

import pytest

from chordmq.broker.groups.classic_groups import Group
from chordmq.broker.groups.consumer_groups import Beat, ConsumerGroup
from chordmq.broker.groups.consumer_image import Image
from chordmq.broker.groups.consumer_protocol import read_assignment, write_assignment
from chordmq.broker.groups.membership import GroupSnapshot, MemberSnapshot
from chordmq.broker.groups.migration import can_downgrade, can_upgrade, downgraded, upgraded
from chordmq.broker.groups.topic_view import TopicFacts, TopicView
from chordmq.broker.settings import BrokerSettings

T = TopicFacts("t", b"t" * 16, 2)
VIEW = TopicView([T])
SUBSCRIPTION = b"\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x00"


def classic(protocol_type: str = "consumer", metadata: bytes = SUBSCRIPTION) -> Group:
    """Return a group of two members, one of them static, with a partition each."""
    members = tuple(
        MemberSnapshot(
            member_id=f"m{index}",
            instance_id="i" if index else None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=2,
            session_timeout_ms=3,
            subscription=metadata,
            assignment=write_assignment([("t", index), ("gone", 0)], 1),
        )
        for index in range(2)
    )
    group = Group("g", BrokerSettings(), lambda: "id")
    snapshot = GroupSnapshot(
        group_id="g",
        protocol_type=protocol_type,
        generation=7,
        protocol="range",
        leader="m0",
        members=members,
    )
    group.replay(snapshot, 0)
    return group


def test_everybody_keeps_what_it_has_on_the_way_there_and_back() -> None:
    """C4: nothing is given up for the change itself."""
    image = upgraded(classic(), VIEW)
    assert (image.epoch, image.target_epoch) == (7, 7)
    assert image.holding("m0").assigned == frozenset({(T.id, 0)})
    assert image.holding("m1").assigned == image.target("m1") == frozenset({(T.id, 1)})
    assert image.static == {"i": "m1"}
    assert can_downgrade(image, BrokerSettings())
    snapshot = downgraded(image, VIEW)
    assert (snapshot.generation, snapshot.protocol, snapshot.leader) == (7, "range", "m0")
    assert [read_assignment(member.assignment) for member in snapshot.members] == [
        frozenset({("t", 0)}),
        frozenset({("t", 1)}),
    ]
    assert [member.session_timeout_ms for member in snapshot.members] == [3, 3]


def test_a_group_with_a_new_member_is_not_downgraded() -> None:
    group = ConsumerGroup("g", BrokerSettings(), lambda: 1)
    for record in upgraded(classic(), VIEW).records():
        group.replay(record)
    group.wake(0)
    beat = Beat(member_id="n", epoch=0, topics=frozenset({"t"}), owned=frozenset())
    group.heartbeat(beat, VIEW, 0)
    assert not can_downgrade(group.image, BrokerSettings())
    assert not can_downgrade(Image("g"), BrokerSettings())


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("disabled", False, False),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("bidirectional", True, True),
    ],
)
def test_the_node_decides_which_way_groups_may_go(policy: str, up: bool, down: bool) -> None:
    settings = BrokerSettings(group_consumer_migration_policy=policy)
    assert can_upgrade(classic(), settings) is up
    assert can_downgrade(upgraded(classic(), VIEW), settings) is down
    assert can_upgrade(Group("g", settings, lambda: "id"), settings), "nobody is asked"


def test_only_groups_of_consumers_that_can_be_read_go_over() -> None:
    assert not can_upgrade(classic("connect"), BrokerSettings())
    assert not can_upgrade(classic(metadata=b"\x00"), BrokerSettings())
    assert not can_upgrade(classic(), BrokerSettings(group_consumer_max_size=1))
