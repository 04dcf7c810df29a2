"""What can be set for a topic and for a node, by Kafka's names, with defaults and sources."""

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Any, Self

from chordmq.broker.groups.defaults import GroupDefaults
from chordmq.broker.setting import (
    LONG_MAX,
    Candidate,
    Kind,
    Setting,
    Shown,
    Source,
    declare,
    declared,
    field_name,
    parse_all,
    text_of,
    unknown,
)
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

_DAY_MS = 86_400_000
THROTTLED = r"\*|[0-9]+:[0-9]+"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How one topic stores and keeps its records; `segment_bytes` is Kafka's `segment.bytes`."""

    cleanup_policy: tuple[str, ...] = declare(
        Kind.LIST,
        ("delete",),
        "What happens to old records: delete them by age and size, compact them to the newest "
        "per key, both, or (empty) neither.",
        choices=("delete", "compact"),
        node_name="log.cleanup.policy",
    )
    retention_ms: int = declare(
        Kind.LONG,
        7 * _DAY_MS,
        "Age after which segments are deleted; -1 keeps them for ever.",
        low=-1,
        node_name="log.retention.ms",
    )
    retention_bytes: int = declare(
        Kind.LONG,
        -1,
        "Size of a partition above which its oldest segments are deleted; -1 sets no limit.",
        low=-1,
        node_name="log.retention.bytes",
    )
    memory_retention_ms: int = declare(
        Kind.LONG,
        600_000,
        "Age after which records are served from disk only; the node's memory budget may end it "
        "sooner, and -1 leaves it to the budget alone.",
        low=-1,
        node_name="log.memory.retention.ms",
    )
    flush: str = declare(
        Kind.STRING,
        "disk",
        "What acks=all waits for: disk (survives a power cut) or os (survives a crash of the node "
        "only, as Kafka's default does).",
        choices=("disk", "os"),
        node_name="log.flush",
    )
    flush_messages: int = declare(
        Kind.LONG,
        LONG_MAX,
        "1 asks for flush=disk, whatever `flush` says; larger numbers have no effect.",
        low=1,
        node_name="log.flush.interval.messages",
    )
    flush_ms: int = declare(
        Kind.LONG,
        LONG_MAX,
        "Time between forced flushes; flush=disk flushes before every acknowledgement instead.",
        low=0,
        node_name="log.flush.interval.ms",
        has_effect=False,
    )
    segment_bytes: int = declare(
        Kind.INT,
        2**30,
        "Size at which a new segment file is begun.",
        low=2**20,
        node_name="log.segment.bytes",
    )
    segment_ms: int = declare(
        Kind.LONG,
        7 * _DAY_MS,
        "Age at which a new segment file is begun, even if the old one is small.",
        low=1,
        node_name="log.roll.ms",
    )
    segment_jitter_ms: int = declare(
        Kind.LONG,
        0,
        "Random time taken off segment.ms so that segments do not all roll at once.",
        low=0,
        node_name="log.roll.jitter.ms",
        has_effect=False,
    )
    segment_index_bytes: int = declare(
        Kind.INT,
        10 * 2**20,
        "Size of a segment's index file; here an index grows as it needs to.",
        low=4,
        node_name="log.index.size.max.bytes",
        has_effect=False,
    )
    index_interval_bytes: int = declare(
        Kind.INT,
        4096,
        "Bytes of log between two index entries.",
        low=0,
        node_name="log.index.interval.bytes",
    )
    preallocate: bool = declare(
        Kind.BOOLEAN,
        False,
        "Reserve a segment's space on disk when it is begun.",
        node_name="log.preallocate",
        has_effect=False,
    )
    max_message_bytes: int = declare(
        Kind.INT,
        1_048_588,
        "Largest batch of records taken, after compression.",
        low=0,
        node_name="message.max.bytes",
    )
    compression_type: str = declare(
        Kind.STRING,
        "producer",
        "Compression of stored batches; producer keeps each as it came.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        node_name="compression.type",
    )
    compression_gzip_level: int = declare(
        Kind.INT,
        -1,
        "Effort of gzip when compression.type is gzip; -1 is the library's default.",
        low=-1,
        high=9,
        node_name="compression.gzip.level",
    )
    compression_lz4_level: int = declare(
        Kind.INT,
        9,
        "Effort of lz4 when compression.type is lz4.",
        low=1,
        high=17,
        node_name="compression.lz4.level",
    )
    compression_zstd_level: int = declare(
        Kind.INT,
        3,
        "Effort of zstd when compression.type is zstd.",
        low=-131072,
        high=22,
        node_name="compression.zstd.level",
    )
    message_timestamp_type: str = declare(
        Kind.STRING,
        "CreateTime",
        "Whose time a record carries: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        node_name="log.message.timestamp.type",
    )
    message_timestamp_before_max_ms: int = declare(
        Kind.LONG,
        LONG_MAX,
        "How far in the past a producer's time may lie.",
        low=0,
        node_name="log.message.timestamp.before.max.ms",
    )
    message_timestamp_after_max_ms: int = declare(
        Kind.LONG,
        3_600_000,
        "How far in the future a producer's time may lie.",
        low=0,
        node_name="log.message.timestamp.after.max.ms",
    )
    delete_retention_ms: int = declare(
        Kind.LONG,
        _DAY_MS,
        "Time for which compaction keeps the mark of a deleted key.",
        low=0,
        node_name="log.cleaner.delete.retention.ms",
    )
    min_compaction_lag_ms: int = declare(
        Kind.LONG,
        0,
        "Age below which a record is not compacted.",
        low=0,
        node_name="log.cleaner.min.compaction.lag.ms",
    )
    max_compaction_lag_ms: int = declare(
        Kind.LONG,
        LONG_MAX,
        "Age by which a record has been offered to compaction.",
        low=1,
        node_name="log.cleaner.max.compaction.lag.ms",
    )
    min_cleanable_dirty_ratio: float = declare(
        Kind.DOUBLE,
        0.5,
        "Share of not yet compacted bytes at which compaction starts.",
        low=0,
        high=1,
        node_name="log.cleaner.min.cleanable.ratio",
    )
    file_delete_delay_ms: int = declare(
        Kind.LONG,
        60_000,
        "Time between removing a segment from the log and its file from the disk; here readers "
        "keep what they hold, so files go at once.",
        low=0,
        node_name="log.segment.delete.delay.ms",
        has_effect=False,
    )
    min_insync_replicas: int = declare(
        Kind.INT,
        1,
        "Replicas that must have a record before acks=all is answered, or all if there are fewer; "
        "on one node there is one.",
        low=1,
        node_name="min.insync.replicas",
        has_effect=False,
    )
    unclean_leader_election_enable: bool = declare(
        Kind.BOOLEAN,
        False,
        "Let a replica that misses records lead when no other is left; loses records.",
        node_name="unclean.leader.election.enable",
        has_effect=False,
    )
    leader_replication_throttled_replicas: tuple[str, ...] = declare(
        Kind.LIST,
        (),
        "Replicas slowed down on the leader's side, as partition:node, or * for all.",
        pattern=THROTTLED,
        has_effect=False,
    )
    follower_replication_throttled_replicas: tuple[str, ...] = declare(
        Kind.LIST,
        (),
        "Replicas slowed down on the follower's side, as partition:node, or * for all.",
        pattern=THROTTLED,
        has_effect=False,
    )
    remote_storage_enable: bool = declare(
        Kind.BOOLEAN,
        False,
        "Move old segments to an object store; not available yet, so only false is taken.",
        has_effect=False,
    )
    remote_log_copy_disable: bool = declare(
        Kind.BOOLEAN, False, "Stop moving segments to the object store.", has_effect=False
    )
    remote_log_delete_on_disable: bool = declare(
        Kind.BOOLEAN,
        False,
        "Delete what the object store holds when remote storage is switched off.",
        has_effect=False,
    )
    local_retention_ms: int = declare(
        Kind.LONG,
        -2,
        "Age up to which moved segments also stay on this disk; -2 means retention.ms.",
        low=-2,
        node_name="log.local.retention.ms",
        has_effect=False,
    )
    local_retention_bytes: int = declare(
        Kind.LONG,
        -2,
        "Bytes of moved segments that also stay on this disk; -2 means retention.bytes.",
        low=-2,
        node_name="log.local.retention.bytes",
        has_effect=False,
    )

    def with_texts(self, texts: Mapping[str, str]) -> Self:
        """Return these settings with the named ones changed; raise InvalidSetting if one is bad."""
        changed = dataclasses.replace(self, **_any(parse_all(topic_settings(), texts)))
        if changed.remote_storage_enable:
            raise InvalidSetting("remote.storage.enable: this node has no object store")
        if changed.compression_gzip_level == 0:
            raise InvalidSetting("compression.gzip.level: 0 is no compression; use uncompressed")
        if changed.min_compaction_lag_ms > changed.max_compaction_lag_ms:
            raise InvalidSetting(
                f"min.compaction.lag.ms {changed.min_compaction_lag_ms} is larger than "
                f"max.compaction.lag.ms {changed.max_compaction_lag_ms}"
            )
        return changed

    @property
    def flushes_to_disk(self) -> bool:
        """Return whether acks=all waits for the disk; the stronger of the two settings wins."""
        return self.flush == "disk" or self.flush_messages == 1

    @property
    def is_compacted(self) -> bool:
        """Return whether the topic keeps the newest record per key, so that each needs a key."""
        return "compact" in self.cleanup_policy

    @property
    def uses_append_time(self) -> bool:
        """Return whether the broker's time replaces the producer's."""
        return self.message_timestamp_type == "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings(GroupDefaults):
    """How one node behaves; `topic` and `dynamic` give the defaults of its topics."""

    node_id: int = declare(
        Kind.INT, 0, "Number that names the node to clients; no two nodes share one.", low=0
    )
    log_memory_max_bytes: int = declare(
        Kind.LONG,
        16 * 2**20,
        "Memory for the newest records; pieces read ahead take what is left, or a quarter more.",
        low=0,
    )
    log_retention_check_interval_ms: int = declare(
        Kind.LONG, 10_000, "Time between two rounds of retention and checkpoints.", low=1
    )
    log_cleaner_backoff_ms: int = declare(
        Kind.LONG, 15_000, "Time between two rounds of compaction.", low=1
    )
    log_scrub_bytes_per_second: int = declare(
        Kind.LONG, 8 * 2**20, "How fast stored segments are read again to find damage.", low=1024
    )
    disk_free_warn_bytes: int = declare(
        Kind.LONG,
        2**30,
        "Free space on the disk below which the node warns.",
        low=0,
    )
    disk_free_stop_bytes: int = declare(
        Kind.LONG,
        64 * 2**20,
        "Free space on the disk below which writes are refused while reads go on.",
        low=0,
    )
    max_partitions: int = declare(
        Kind.INT, 20_000, "Most partitions on the node; each holds open files and memory.", low=1
    )
    num_partitions: int = declare(
        Kind.INT, 1, "Partitions of a topic whose creator does not say how many.", low=1
    )
    default_replication_factor: int = declare(
        Kind.INT, 1, "Replicas of a topic whose creator does not say how many.", low=1, high=32_767
    )
    broker_rack: str = declare(
        Kind.STRING, "", "Where the node stands; replicas are spread over racks."
    )
    replica_lag_time_max_ms: int = declare(
        Kind.LONG,
        30_000,
        "How long a follower may be behind its leader and still count as in sync.",
        low=1,
    )
    auto_create_topics_enable: bool = declare(
        Kind.BOOLEAN, True, "Create a topic when a client first asks for it by name."
    )
    delete_topic_enable: bool = declare(Kind.BOOLEAN, True, "Let administrators delete topics.")
    fetch_max_bytes: int = declare(
        Kind.INT, 57_671_680, "Most bytes one fetch is answered with.", low=1024
    )
    transaction_max_timeout_ms: int = declare(
        Kind.INT, 900_000, "Longest time-out a transactional producer may ask for.", low=1
    )
    transaction_state_log_num_partitions: int = declare(
        Kind.INT, 16, "Partitions of the topic that holds transactions.", low=1
    )
    transactional_id_expiration_ms: int = declare(
        Kind.INT, 7 * _DAY_MS, "Time after which an idle transactional id is forgotten.", low=1
    )
    producer_id_expiration_ms: int = declare(
        Kind.INT, _DAY_MS, "Time after which an idle producer's sequence is forgotten.", low=1
    )

    topic: TopicSettings = TopicSettings()
    """Defaults of the topics as the node's configuration gives them."""
    dynamic: Mapping[str, str] = field(default_factory=dict)
    """Defaults of the topics changed while the node runs, by the node's name for each."""

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """Build the settings from Kafka's names, `num.partitions` as well as `log.retention.ms`."""
        own, of_topics = broker_settings(), topic_names()
        for name in texts:
            if name not in own and name not in of_topics:
                raise unknown(name, [*own, *of_topics])
        values = parse_all(own, {name: text for name, text in texts.items() if name in own})
        topic = TopicSettings().with_texts(
            {of_topics[name]: text for name, text in texts.items() if name in of_topics}
        )
        return cls(topic=topic, **_any(values))

    def with_dynamic(self, texts: Mapping[str, str]) -> Self:
        """Return these settings with another set of dynamic ones; raise InvalidSetting if bad."""
        for name in texts:
            if name in broker_settings():
                raise InvalidSetting(f"{name} can only be changed in the node's configuration")
            if name not in topic_names():
                raise unknown(name, [*broker_settings(), *topic_names()])
        changed = dataclasses.replace(self, dynamic=dict(texts))
        changed.topic_defaults()
        return changed

    def topic_defaults(self) -> TopicSettings:
        """Return what applies to a topic that overrides nothing."""
        names = topic_names()
        return self.topic.with_texts({names[name]: text for name, text in self.dynamic.items()})

    def shown(self) -> list[Shown]:
        """Return the node's own settings and its defaults for topics, as in force."""
        own = [
            Shown(setting, tuple(_static(setting, setting.name, self)))
            for setting in broker_settings().values()
        ]
        defaults = [
            Shown(
                dataclasses.replace(setting, name=setting.node_name, dynamic=True),
                tuple(self._defaults_of(setting)),
            )
            for setting in topic_settings().values()
            if setting.node_name
        ]
        return own + defaults

    def shown_for_topic(self, overrides: Mapping[str, str]) -> list[Shown]:
        """Return every setting of a topic that overrides these."""
        rows = []
        for name, setting in topic_settings().items():
            found = [Candidate(name, overrides[name], Source.TOPIC)] if name in overrides else []
            rows.append(Shown(setting, (*found, *self._defaults_of(setting))))
        return rows

    def _defaults_of(self, setting: Setting) -> list[Candidate]:
        name = setting.node_name or setting.name
        if name not in self.dynamic:
            return _static(setting, name, self.topic)
        dynamic = Candidate(name, self.dynamic[name], Source.NODE_DYNAMIC)
        return [dynamic, *_static(setting, name, self.topic)]


def _static(setting: Setting, name: str, owner: TopicSettings | BrokerSettings) -> list[Candidate]:
    value = getattr(owner, field_name(setting.name))
    default = Candidate(name, text_of(setting.default), Source.DEFAULT)
    if value == setting.default:
        return [default]
    return [Candidate(name, text_of(value), Source.NODE), default]


@cache
def topic_settings() -> dict[str, Setting]:
    """Return every setting that a topic takes, by name."""
    return declared(TopicSettings)


@cache
def broker_settings() -> dict[str, Setting]:
    """Return every setting that only the node takes, by name."""
    return declared(BrokerSettings)


@cache
def topic_names() -> dict[str, str]:
    """Return the topic settings by the name that the node's default for them has."""
    return {s.node_name: name for name, s in topic_settings().items() if s.node_name}


def _any(values: Mapping[str, Any]) -> dict[str, Any]:
    # The parsed values have the types of their fields; a checker cannot follow that.
    return dict(values)
