"""Hierarchical names on log topics: where a message goes, how it is called, what a filter reads.

A name with levels, `x/y/rest`, goes to the log topic `x.y`; its third level is the key, so that
what belongs to one device keeps its order; the whole name is kept in a header. Rules can say
otherwise. A name without levels is that of a log topic.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from chordmq.broker.subscriptions import (
    ONE,
    REST,
    SEPARATOR,
    FilterTree,
    check_filter,
    check_name,
    has_wildcard,
    matches,
    overlaps,
)
from chordmq.broker.topic_names import DOT, TOPIC_LENGTH_MAX, Shape, TopicNames
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidPattern, InvalidSetting, InvalidTopicName
from chordmq.records.record import Headers, NewRecord, Record

NAME_HEADER = "chordmq.topic"
DIGEST_LENGTH = 16

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
_PLACE = re.compile(r"\{([0-9]{1,3})\}")
_TOPIC = re.compile(rf"[A-Za-z0-9._-]{{1,{TOPIC_LENGTH_MAX}}}")
_RULE = re.compile(r"(\S+)\s*->\s*([A-Za-z0-9._-]{1,249})(?:\s+(\S+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesSettings:
    """How names with levels find their log topics."""

    rules: str = ""
    """Rules `filter -> topic key`, with semicolons between; `{3}` in the key is the third level.
    The first whose filter matches a name counts; other names `x/y/z` go to the topic `x.y` with
    the key `z`."""


class Rule(NamedTuple):
    """Names that match the filter go to the topic, with a key made of their levels."""

    filter: str
    topic: str
    key: str | None = None


class LogTopic(Protocol):
    """What is asked of a log topic."""

    name: str

    @property
    def is_internal(self) -> bool:
        """Return whether it is the broker's own."""
        ...


T_co = TypeVar("T_co", bound=LogTopic, covariant=True)


class Known(Protocol[T_co]):
    """Log topics, to be looked up."""

    names: TopicNames

    def find(self, name: str) -> T_co | None:
        """Return the one of a name, or None."""
        ...


class Destination(NamedTuple):
    """The log topic of a name, and the key of its messages."""

    topic: str
    key: bytes | None


class Reach(NamedTuple):
    """The log topics that may hold what a filter matches."""

    named: frozenset[str]
    """Those of rules, and that of levels without a wildcard."""
    shape: Shape | None
    """What others are called, where a wildcard leaves that open."""

    def covers(self, topic: str) -> bool:
        """Return whether a log topic is one of them."""
        return topic in self.named or (self.shape is not None and self.shape.fits(topic))

    def among(self, topics: Known[T_co]) -> list[T_co]:
        """Return which of some log topics they are, without internal ones."""
        names: Iterable[str] = self.named
        if self.shape is not None:
            names = dict.fromkeys((*topics.names.matching(self.shape), *self.named))
        found = map(topics.find, names)
        return [topic for topic in found if topic is not None and not topic.is_internal]


class Names:
    """The rules in force; all fronts ask the same."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules: list[Rule] = []
        self._tree: FilterTree[int] = FilterTree()
        self.watchers: list[Callable[[], None]] = []
        """Told when the rules have changed."""
        self.change(rules)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return the rules, in the order in which they are asked."""
        return tuple(self._rules)

    def change(self, rules: Iterable[Rule]) -> None:
        """Go by other rules from now on."""
        rules = list(rules)
        if rules == self._rules:
            return
        self._rules, self._tree = rules, FilterTree()
        for number, rule in enumerate(rules):
            self._tree.add(rule.filter, number)
        for watcher in self.watchers:
            watcher()

    def rule_of(self, name: str) -> Rule | None:
        """Return the rule that says where messages of a name go; None if none does."""
        if not self._rules:
            return None
        number = min(self._tree.find(name), default=None)
        return None if number is None else self._rules[number]

    def destination(self, name: str) -> Destination:
        """Return where messages of a name go; raise InvalidTopicName if it is none."""
        if SEPARATOR not in name:
            return Destination(name, None)
        check_name(name)
        rule = self.rule_of(name)
        levels = name.split(SEPARATOR)
        if rule is not None:
            return Destination(rule.topic, _key(rule.key, levels))
        key = levels[2].encode() if len(levels) > 2 else None
        return Destination(_topic(levels), key)

    def reach(self, wanted: str) -> Reach:
        """Return which log topics may hold what a filter matches, also those not yet made."""
        literal = literal_topic(wanted)
        if literal is None:
            return Reach(self.ruled(wanted), _shape_of(wanted))
        return Reach(self.ruled(wanted) | {literal}, None)

    def ruled(self, wanted: str) -> frozenset[str]:
        """Return the log topics of the rules for what a filter matches."""
        return frozenset(rule.topic for rule in self._rules if overlaps(rule.filter, wanted))


def read_rules(text: str) -> list[Rule]:
    """Return the rules in a setting, or raise InvalidSetting."""
    rules = []
    for part in filter(None, map(str.strip, text.split(";"))):
        found = _RULE.fullmatch(part)
        if found is None:
            raise InvalidSetting(f"names.rules: {part!r} is not `filter -> topic key`")
        rule = Rule(*found.groups())
        try:
            check_filter(rule.filter)
        except InvalidPattern as error:
            raise InvalidSetting(f"names.rules: {error}") from None
        rules.append(rule)
    return rules


def check_rule(rule: Rule) -> None:
    """Raise InvalidPattern, or InvalidTopicName, for a rule that makes no sense."""
    check_filter(rule.filter)
    if _TOPIC.fullmatch(rule.topic) is None or rule.topic.startswith("__"):
        raise InvalidTopicName(f"{rule.topic[:100]!r} cannot be the log topic of a rule")
    if rule.key is not None and not rule.key:
        raise InvalidPattern("an empty key; leave it out for none")


def plain_topic(name: str) -> str:
    """Return the log topic of a name without levels, also of one that no log topic may have."""
    topic = _legal(name)
    if len(topic) <= TOPIC_LENGTH_MAX:
        return topic
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_LENGTH]
    return topic[: TOPIC_LENGTH_MAX - DIGEST_LENGTH - 1] + "_" + digest


def literal_topic(wanted: str) -> str | None:
    """Return the log topic of a filter's first two levels; None if a wildcard is one of them."""
    levels = wanted.split(SEPARATOR)
    if {ONE, REST} & {*levels[:2]}:
        return None
    return _topic(levels) if len(levels) > 1 else plain_topic(wanted)


def is_filter(text: str) -> bool:
    """Return whether a text asks for names with levels, and not for a log topic as a whole."""
    return SEPARATOR in text or has_wildcard(text)


def named(record: NewRecord, name: str) -> NewRecord:
    """Return a record that says its name; that of a log topic needs no saying."""
    if SEPARATOR not in name:
        return record
    return record._replace(headers=((NAME_HEADER, name.encode()), *without_name(record.headers)))


def without_name(headers: Headers) -> Headers:
    """Return the headers that are the sender's own."""
    return tuple(header for header in headers if header[0] != NAME_HEADER)


def name_of(topic: str, record: Record) -> str:
    """Return the name of a record; one that says none is called by its log topic and key.

    So a Kafka producer's record with the key `z` in the topic `x.y` is `x/y/z`.
    """
    for header, value in record.headers:
        if header == NAME_HEADER and value is not None:
            return value.decode(errors="replace")
    first, dot, second = topic.partition(".")
    if not (dot and first and second):
        return topic
    name = first + SEPARATOR + second
    key = (record.key or b"").decode(errors="replace")
    return name + SEPARATOR + key if key else name


def is_wanted(wanted: str, topic: str, record: Record) -> bool:
    """Return whether a filter matches the name of a record."""
    return matches(wanted, name_of(topic, record))


def _topic(levels: list[str]) -> str:
    """Return the log topic of the first two levels; the header keeps what it cannot say.

    What a log topic's name may not have becomes `_`; of one too long, a digest replaces the end.
    """
    topic = f"{_legal(levels[0])}.{_legal(levels[1])}"
    if len(topic) <= TOPIC_LENGTH_MAX:
        return topic
    digest = hashlib.sha256(SEPARATOR.join(levels[:2]).encode()).hexdigest()[:DIGEST_LENGTH]
    return topic[: TOPIC_LENGTH_MAX - DIGEST_LENGTH - 1] + "_" + digest


def _legal(level: str) -> str:
    return _ILLEGAL.sub("_", level) or "_"


def _key(template: str | None, levels: list[str]) -> bytes | None:
    if template is None:
        return None

    def level(found: re.Match[str]) -> str:
        number = int(found[1])
        return levels[number - 1] if 1 <= number <= len(levels) else ""

    return _PLACE.sub(level, template).encode()


def _shape_of(wanted: str) -> Shape:
    """Return what log topics are called whose names a filter with wildcards may match."""
    levels = wanted.split(SEPARATOR)
    if levels[0] == REST or len(levels) == 1:
        # A single level may have a dot inside, and then says its name in the header.
        return Shape(is_alone=True)
    first, second = ("" if one in (ONE, REST) else _legal(one) for one in levels[:2])
    return Shape(first and first + DOT, second and DOT + second, levels[1] == REST)
