"""Since when the offsets of a group are not in use, after which they may expire."""

from collections.abc import Callable

from chordmq.broker.groups.classic_groups import Group
from chordmq.broker.groups.classic_states import State
from chordmq.broker.groups.consumer_groups import ConsumerGroup, ConsumerState
from chordmq.broker.groups.offsets import CommittedOffset


def idle_since(
    group: Group | ConsumerGroup, topics: set[str]
) -> Callable[[str, CommittedOffset], int | None]:
    """Return the rule that says since when an offset of the group is not in use."""
    empty_since_ms = -1
    if isinstance(group, Group) and group.committed is not None:
        empty_since_ms = group.committed.since_ms
    unread: set[str] = set()
    if group.state in (State.STABLE, ConsumerState.STABLE):
        unread = {topic for topic in topics if not group.subscribes(topic)}

    def since_ms(topic: str, committed: CommittedOffset) -> int | None:
        if group.is_empty:
            return max(committed.commit_ms, empty_since_ms)
        return committed.commit_ms if topic in unread else None

    return since_ms
