"""What can be set for one group, by Kafka's names, and which groups have settings of their own."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Self

from chordmq.broker.groups.defaults import GroupDefaults
from chordmq.broker.setting import (
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
)
from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import Delete, Event, Put
from chordmq.cluster.state import GROUPS, Settings, decode, encode, name_of, named_key
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

DURATION = r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?"
BY_DURATION = "by_duration:"
_HOUR_MS = 3_600_000

Alteration = Callable[[Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How one group reads; `share_session_timeout_ms` is Kafka's `share.session.timeout.ms`."""

    share_auto_offset_reset: str = declare(
        Kind.STRING,
        "latest",
        "Where a share group begins in a partition it is new to: earliest, latest or "
        "by_duration:<ISO 8601 duration>.",
        pattern=rf"earliest|latest|{BY_DURATION}{DURATION}",
    )
    share_record_lock_duration_ms: int = declare(
        Kind.INT,
        30_000,
        "Time after which a record that a share consumer has not answered goes to another.",
        low=1_000,
        high=_HOUR_MS,
    )
    share_delivery_count_limit: int = declare(
        Kind.INT, 5, "How often a record is tried in a share group.", low=1, high=1_000
    )
    share_partition_max_record_locks: int = declare(
        Kind.INT,
        2_000,
        "Records of a partition that may be under way in a share group.",
        low=1,
        high=100_000,
    )
    share_heartbeat_interval_ms: int = declare(
        Kind.INT, 5_000, "Time between two heartbeats of a share consumer.", low=100, high=_HOUR_MS
    )
    share_session_timeout_ms: int = declare(
        Kind.INT,
        45_000,
        "Time after which a share consumer that is not heard of is taken for gone.",
        low=1_000,
        high=_HOUR_MS,
    )
    share_isolation_level: str = declare(
        Kind.STRING,
        "read_uncommitted",
        "Whether a share group sees records of transactions that are not committed.",
        choices=("read_committed", "read_uncommitted"),
    )
    share_renew_acknowledge_enable: bool = declare(
        Kind.BOOLEAN, True, "Let share consumers ask for more time for a record."
    )
    errors_deadletterqueue_topic_name: str = declare(
        Kind.STRING,
        "",
        "Topic that gets a copy of records that a share group rejects or tries too often; {topic} "
        "stands for the topic they came from, and empty for no copies.",
        pattern=r"(?:[a-zA-Z0-9._-]|\{topic\})*",
    )

    consumer_session_timeout_ms: int = declare(
        Kind.INT,
        45_000,
        "Silence after which a consumer is out of its group.",
        low=1,
        node_name="group.consumer.session.timeout.ms",
    )
    consumer_heartbeat_interval_ms: int = declare(
        Kind.INT,
        5_000,
        "Time that consumers leave between two heartbeats.",
        low=1,
        node_name="group.consumer.heartbeat.interval.ms",
    )

    def with_texts(self, texts: Mapping[str, str]) -> Self:
        """Return these settings with others in place of some; raise InvalidSetting if bad."""
        values: dict[str, Any] = dict(parse_all(group_settings(), texts))
        changed = dataclasses.replace(self, **values)
        if changed.share_heartbeat_interval_ms >= changed.share_session_timeout_ms:
            raise InvalidSetting(
                "share.heartbeat.interval.ms must be less than share.session.timeout.ms"
            )
        if changed.dead_letter("x") == "x" or changed.dead_letter("x").startswith("__"):
            raise InvalidSetting("A dead-letter topic is neither internal nor the topic itself.")
        return changed

    def start_ms(self, now_ms: int) -> int | None:
        """Return the time at which a new cursor begins, if that is what is asked for."""
        match = re.fullmatch(BY_DURATION + DURATION, self.share_auto_offset_reset)
        if match is None:
            return None
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        past_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return max(now_ms - int(past_s * 1000), 0)

    def dead_letter(self, topic: str) -> str:
        """Return the dead-letter topic of a topic, or nothing."""
        return self.errors_deadletterqueue_topic_name.replace("{topic}", topic)


@cache
def group_settings() -> dict[str, Setting]:
    """Return every setting of a group, by name."""
    return declared(GroupSettings)


class GroupOverrides:
    """The settings that operators gave single groups; the store has them before they count."""

    def __init__(self, image: Image, node: GroupDefaults) -> None:
        self._image = image
        self._node = node
        self._defaults = _defaults_on(node)
        self._texts: dict[str, dict[str, str]] = {}
        self._settings: dict[str, GroupSettings] = {}
        self.on_changed: Callable[[str], None] | None = None
        """Told the name of each group whose settings have changed."""
        image.listen(GROUPS, self._hear)
        self._hear(image.told(GROUPS))

    def of(self, group: str) -> GroupSettings:
        """Return what is in force for a group."""
        return self._settings.get(group, self._defaults)

    def groups(self) -> list[str]:
        """Return the groups that have settings of their own."""
        return list(self._texts)

    def texts(self, group: str) -> Mapping[str, str]:
        """Return a group's own settings, as given."""
        return self._texts.get(group, {})

    def shown(self, group: str) -> list[Shown]:
        """Return every setting of a group, with where its value comes from."""
        own = self.texts(group)
        rows = []
        for name, setting in group_settings().items():
            default = _default_of(setting, self._defaults)
            mine = [Candidate(name, own[name], Source.GROUP)] if name in own else []
            rows.append(Shown(setting, (*mine, default)))
        return rows

    async def alter(self, group: str, alter: Alteration, *, validate_only: bool = False) -> None:
        """Change a group's own settings to what `alter` makes of them."""
        texts = dict(alter(self.texts(group)))
        settings = self._defaults.with_texts(texts)
        for name in texts:
            _check_limits(name, getattr(settings, field_name(name)), self._node)
        if validate_only:
            return
        key = named_key(GROUPS, group)
        await self._image.commit(
            [], [Put(key, encode(Settings(settings=texts))) if texts else Delete(key)]
        )

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            group = name_of(event.key)
            if event.entry is not None:
                texts = decode(event.entry, Settings).settings
                self._texts[group] = texts
                self._settings[group] = _tolerant(texts, self._defaults)
            else:
                self._texts.pop(group, None)
                self._settings.pop(group, None)
            if self.on_changed is not None:
                self.on_changed(group)


def _defaults_on(node: GroupDefaults) -> GroupSettings:
    return GroupSettings(
        consumer_session_timeout_ms=node.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=node.group_consumer_heartbeat_interval_ms,
    )


def _default_of(setting: Setting, defaults: GroupSettings) -> Candidate:
    value = getattr(defaults, field_name(setting.name))
    if value == setting.default:
        return Candidate(setting.name, text_of(value), Source.DEFAULT)
    return Candidate(setting.node_name or setting.name, text_of(value), Source.NODE)


def _check_limits(name: str, value: object, node: GroupDefaults) -> None:
    """Refuse a number beyond what the node lets groups have."""
    kind, _, rest = name.partition(".")
    low = getattr(node, field_name(f"group.{kind}.min.{rest}"), None)
    high = getattr(node, field_name(f"group.{kind}.max.{rest}"), None)
    if isinstance(low, int) and isinstance(value, int) and value < low:
        raise InvalidSetting(f"{name} must be greater than or equal to {low}")
    if isinstance(high, int) and isinstance(value, int) and value > high:
        raise InvalidSetting(f"{name} must be less than or equal to {high}")


def _tolerant(texts: Mapping[str, str], settings: GroupSettings) -> GroupSettings:
    """Read stored settings; one that this version does not take is left at its default."""
    for name, text in texts.items():
        try:
            settings = settings.with_texts({name: text})
        except InvalidSetting:
            continue
    return settings
