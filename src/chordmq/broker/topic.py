"""One topic: its name, its partitions and the settings in force."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import field

from chordmq.broker.partition import Partition
from chordmq.broker.settings import TopicSettings
from chordmq.dataclass import dataclass
from chordmq.errors import (
    InvalidPartitionCount,
    InvalidSetting,
    InvalidTopicName,
    PolicyViolation,
)
from chordmq.logs import get_logger

log = get_logger(__name__)

NAME_LENGTH_MAX = 249
PARTITIONS_PER_TOPIC_MAX = 10_000
QUEUES_TOPIC = "__queues"
INTERNAL_TOPICS = frozenset(
    {
        "__audit",
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__sessions",
        "__retained",
        "__devices",
        "__cluster_metadata",
        QUEUES_TOPIC,
        "__queues_transient",
    }
)

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(slots=True, eq=False)
class Topic:
    """A topic that exists; partitions are only ever added."""

    name: str
    id: bytes
    settings: TopicSettings
    """What is in force: the node's defaults under the topic's own settings."""
    overrides: dict[str, str]
    """The topic's own settings, as given."""
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        """Return whether the broker made the topic for its own use."""
        return self.name in INTERNAL_TOPICS

    def apply(self, settings: TopicSettings) -> None:
        """Let other settings be in force from now on."""
        self.settings = settings
        for partition in self.partitions:
            partition.settings = settings


def check_name(name: str) -> None:
    """Raise InvalidTopicName unless a topic may have this name."""
    if not name or name in (".", ".."):
        raise InvalidTopicName(f"Topic name is invalid: '{name}' is not allowed.")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopicName(
            f"Topic name is invalid: it has {len(name)} characters, {NAME_LENGTH_MAX} are allowed."
        )
    if not _NAME.fullmatch(name):
        raise InvalidTopicName(
            f"Topic name is invalid: '{name}' has characters other than ASCII letters and digits, "
            "'.', '_' and '-'."
        )


def check_count(partitions: int) -> None:
    """Raise unless a topic may have so many partitions."""
    if partitions < 1:
        raise InvalidPartitionCount("Number of partitions must be larger than 0.")
    if partitions > PARTITIONS_PER_TOPIC_MAX:
        raise PolicyViolation(
            f"A topic may have {PARTITIONS_PER_TOPIC_MAX} partitions, not {partitions}."
        )


def in_force(defaults: TopicSettings, overrides: Mapping[str, str], topic: str) -> TopicSettings:
    """Return the defaults under a topic's own settings, as far as these are known here."""
    settings = defaults
    for name, text in overrides.items():
        try:
            settings = settings.with_texts({name: text})
        except InvalidSetting as error:  # stored by a version with other settings or limits
            log.warning("setting ignored", topic=topic, reason=str(error))
    return settings


def new_id() -> bytes:
    """Return a random id; Kafka's clients take the ids 0 and 1 for none."""
    return uuid.uuid4().bytes
