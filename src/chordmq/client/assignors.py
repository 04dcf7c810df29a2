"""Divides the partitions of topics among the members of a group, as Kafka's assignors do (pure)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

Subscriptions = Mapping[str, Sequence[str]]
"""Member id to the topics it subscribes to."""
PartitionCounts = Mapping[str, int]
Assignment = dict[str, list[tuple[str, int]]]
"""Member id to its (topic, partition) pairs."""


def assign_range(subscriptions: Subscriptions, partitions: PartitionCounts) -> Assignment:
    """Give each member one run of neighbouring partitions of every topic."""
    assignment: Assignment = {member: [] for member in subscriptions}
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        share, extra = divmod(partitions.get(topic, 0), len(members))
        start = 0
        for place, member in enumerate(members):
            end = start + share + (place < extra)
            assignment[member] += [(topic, index) for index in range(start, end)]
            start = end
    return assignment


def assign_round_robin(subscriptions: Subscriptions, partitions: PartitionCounts) -> Assignment:
    """Deal the partitions of all topics out one by one."""
    assignment: Assignment = {member: [] for member in subscriptions}
    members = cycle(sorted(subscriptions))
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        for index in range(partitions.get(topic, 0)):
            member = next(members)
            while topic not in subscriptions[member]:
                member = next(members)
            assignment[member].append((topic, index))
    return assignment


ASSIGNORS: dict[str, Callable[[Subscriptions, PartitionCounts], Assignment]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
}
