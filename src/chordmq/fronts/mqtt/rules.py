"""Who may publish and subscribe to which names, by filters with `%u` and `%c` for who asks.

A rule is `allow|deny user publish|subscribe|all filter`. A rule that denies wins; one that allows
is enough by itself; where no rule says anything, the ACL of the log topic decides.
"""

from enum import Enum
from typing import NamedTuple

from chordmq.broker.subscriptions import (
    ONE,
    REST,
    SEPARATOR,
    check_filter,
    has_wildcard,
    matches,
)
from chordmq.errors import InvalidPattern, InvalidSetting

EVERYBODY = "*"
USER, CLIENT = "%u", "%c"


class Action(Enum):
    """What a client wants to do with a name or filter."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"


class Verdict(Enum):
    """What the rules say."""

    ALLOWED = "allowed"
    DENIED = "denied"
    SILENT = "silent"


class Rule(NamedTuple):
    """One rule, as it is written."""

    is_allowing: bool
    user: str
    actions: frozenset[Action]
    filter: str


def read_rules(text: str) -> list[Rule]:
    """Return the rules in a setting, or raise InvalidSetting."""
    rules = []
    for part in filter(None, map(str.strip, text.split(";"))):
        words = part.split(maxsplit=3)
        if len(words) != 4 or words[0] not in ("allow", "deny"):
            raise InvalidSetting(f"mqtt.acl: {part!r} is not `allow|deny user action filter`")
        effect, user, action, wanted = words
        if action not in ("publish", "subscribe", "all"):
            raise InvalidSetting(f"mqtt.acl: {action!r} is none of publish, subscribe, all")
        actions = frozenset(Action) if action == "all" else frozenset({Action(action)})
        try:
            check_filter(wanted)
        except InvalidPattern as error:
            raise InvalidSetting(f"mqtt.acl: {error}") from None
        rules.append(Rule(effect == "allow", user, actions, wanted))
    return rules


class Rules:
    """The rules of the node."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        self._has_denials = any(not rule.is_allowing for rule in rules)

    def judge(self, action: Action, name: str, user: str, client: str) -> Verdict:
        """Return what the rules say of a name to publish to, or a filter to subscribe to.

        A filter is allowed or denied if everything that it can match is. Of one that can match
        more than is denied, what is denied is left out: see `keeps_from`.
        """
        verdict = Verdict.SILENT
        fits = matches if action is Action.PUBLISH else _covers
        for rule in self._rules:
            if action not in rule.actions or rule.user not in (EVERYBODY, user):
                continue
            wanted = _filled(rule.filter, user, client)
            if wanted is None:
                continue
            if fits(wanted, name):
                if not rule.is_allowing:
                    return Verdict.DENIED
                verdict = Verdict.ALLOWED
        return verdict

    def keeps_from(self, name: str, user: str, client: str) -> bool:
        """Return whether a client must not get messages of a name, whatever filter finds them."""
        return (
            self._has_denials and self.judge(Action.SUBSCRIBE, name, user, client) is Verdict.DENIED
        )


def _filled(wanted: str, user: str, client: str) -> str | None:
    """Return a rule's filter for who asks; None if who asks could widen it by their name."""
    for place, value in ((USER, user), (CLIENT, client)):
        if place in wanted:
            if not value or has_wildcard(value) or SEPARATOR in value:
                return None
            wanted = wanted.replace(place, value)
    return wanted


def _covers(wide: str, narrow: str) -> bool:
    """Return whether the first filter matches every name that the second does."""
    if narrow[:1] in (ONE, REST) and wide.startswith("$"):
        return False
    ours, theirs = wide.split(SEPARATOR), narrow.split(SEPARATOR)
    for at, level in enumerate(ours):
        if level == REST:
            # A name beginning with $ is matched only by a filter that begins so.
            return at <= len(theirs) and not (at == 0 and narrow.startswith("$"))
        if at >= len(theirs) or theirs[at] == REST:
            return False
        if level == ONE:
            if at == 0 and theirs[0].startswith("$"):
                return False
        elif level != theirs[at]:
            return False
    return len(ours) == len(theirs)
