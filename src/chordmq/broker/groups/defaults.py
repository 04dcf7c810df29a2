"""How a node treats its groups, and what it lets single ones have of their own."""

from chordmq.broker.setting import INT_MAX, Kind, declare
from chordmq.dataclass import dataclass

ASSIGNORS = ("uniform", "range")
MIGRATIONS = ("disabled", "upgrade", "downgrade", "bidirectional")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDefaults:
    """The node's settings for all groups; BrokerSettings takes these in."""

    offset_metadata_max_bytes: int = declare(
        Kind.INT, 4096, "Longest text stored with a committed offset.", low=0
    )
    offsets_topic_num_partitions: int = declare(
        Kind.INT, 16, "Partitions of the topic that holds committed offsets.", low=1
    )
    offsets_retention_minutes: int = declare(
        Kind.INT, 10_080, "Time for which an empty group's offsets are kept.", low=1
    )
    group_min_session_timeout_ms: int = declare(
        Kind.INT, 6_000, "Shortest session time-out a group member may ask for.", low=0
    )
    group_max_session_timeout_ms: int = declare(
        Kind.INT, 1_800_000, "Longest session time-out a group member may ask for.", low=0
    )
    group_initial_rebalance_delay_ms: int = declare(
        Kind.INT, 100, "Time a new group waits for more members before it begins.", low=0
    )
    group_max_size: int = declare(Kind.INT, INT_MAX, "Most members of one group.", low=1)
    group_consumer_session_timeout_ms: int = declare(
        Kind.INT, 45_000, "Silence after which a consumer is out of its group.", low=1
    )
    group_consumer_min_session_timeout_ms: int = declare(
        Kind.INT, 45_000, "Shortest session time-out that a group may be given.", low=1
    )
    group_consumer_max_session_timeout_ms: int = declare(
        Kind.INT, 60_000, "Longest session time-out that a group may be given.", low=1
    )
    group_consumer_heartbeat_interval_ms: int = declare(
        Kind.INT, 5_000, "Time that consumers are told to leave between two heartbeats.", low=1
    )
    group_consumer_min_heartbeat_interval_ms: int = declare(
        Kind.INT, 5_000, "Shortest heartbeat interval that a group may be given.", low=1
    )
    group_consumer_max_heartbeat_interval_ms: int = declare(
        Kind.INT, 15_000, "Longest heartbeat interval that a group may be given.", low=1
    )
    group_consumer_max_size: int = declare(
        Kind.INT, INT_MAX, "Most members of one group of the consumer protocol.", low=1
    )
    group_consumer_assignors: tuple[str, ...] = declare(
        Kind.LIST,
        ASSIGNORS,
        "Who shares partitions out; the first does for members that do not choose.",
        choices=ASSIGNORS,
    )
    group_consumer_migration_policy: str = declare(
        Kind.STRING,
        "bidirectional",
        "Which way a group with members may change between the classic and consumer protocols.",
        choices=MIGRATIONS,
    )
    group_consumer_regex_refresh_interval_ms: int = declare(
        Kind.INT,
        600_000,
        "Taken for compatibility: subscribed patterns follow new topics at once.",
        low=10_000,
        has_effect=False,
    )
