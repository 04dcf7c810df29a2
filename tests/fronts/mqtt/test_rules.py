"""Rules by topic filter: what each says of names to publish to and filters to subscribe to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.subscriptions import matches
from chordmq.errors import InvalidSetting
from chordmq.fronts.mqtt.rules import Action, Rules, Verdict, read_rules

LEVELS = st.sampled_from(["a", "b", "$x", "", "+"])
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]) or "+",
    st.lists(LEVELS, min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
)
NAMES = st.lists(st.sampled_from(["a", "b", "$x", ""]), min_size=1, max_size=5).map("/".join)


def judged(rules: str, action: Action, name: str, user: str = "u", client: str = "c") -> Verdict:
    return Rules(read_rules(rules)).judge(action, name, user, client)


@pytest.mark.parametrize(
    ("rules", "name", "verdict"),
    [
        ("", "a", Verdict.SILENT),
        ("allow * all a/#", "a/b", Verdict.ALLOWED),
        ("allow * all a/#", "b", Verdict.SILENT),
        ("allow v all a/#", "a/b", Verdict.SILENT),
        ("allow u publish a/+; deny * all a/b", "a/b", Verdict.DENIED),
        ("deny * all a/b; allow u publish a/+", "a/b", Verdict.DENIED),
        ("allow * subscribe a", "a", Verdict.SILENT),
        ("allow * all %u/%c/x", "u/c/x", Verdict.ALLOWED),
        ("allow * all #", "$x/y", Verdict.SILENT),
    ],
)
def test_names(rules: str, name: str, verdict: Verdict) -> None:
    assert judged(rules, Action.PUBLISH, name) is verdict


@pytest.mark.parametrize(
    ("rules", "wanted", "verdict"),
    [
        ("allow * all a/#", "a/#", Verdict.ALLOWED),
        ("allow * all a/#", "a/+/b", Verdict.ALLOWED),
        ("allow * all a/#", "a", Verdict.ALLOWED),
        ("allow * all a/#", "+/b", Verdict.SILENT),
        ("allow * all a/#", "#", Verdict.SILENT),
        ("allow * all a/+", "a/#", Verdict.SILENT),
        ("allow * all a/+", "a/b/c", Verdict.SILENT),
        ("allow * all #; deny * all a/secret", "a/+", Verdict.ALLOWED),
        ("allow * all #; deny * all a/secret", "a/secret", Verdict.DENIED),
        ("allow * all #; deny * all a/#", "a/+", Verdict.DENIED),
        ("allow * all #; deny * all a/secret", "b/#", Verdict.ALLOWED),
        ("allow * all #", "$SYS/#", Verdict.SILENT),
        ("allow * all $SYS/#", "#", Verdict.SILENT),
    ],
)
def test_filters(rules: str, wanted: str, verdict: Verdict) -> None:
    assert judged(rules, Action.SUBSCRIBE, wanted) is verdict


def test_what_is_denied_is_kept_from_any_filter() -> None:
    rules = Rules(read_rules("allow * all #; deny u all a/secret/#"))
    assert rules.keeps_from("a/secret/x", "u", "c")
    assert not rules.keeps_from("a/secret/x", "v", "c")
    assert not rules.keeps_from("a/open", "u", "c")


@given(FILTERS, FILTERS, NAMES)
def test_an_allowed_filter_matches_only_allowed_names(rule: str, wanted: str, name: str) -> None:
    """E13: whatever a filter can match, the rule matches as well."""
    verdict = judged(f"allow * all {rule}", Action.SUBSCRIBE, wanted)
    if verdict is Verdict.ALLOWED and matches(wanted, name):
        assert matches(rule, name)


@given(st.text(max_size=5), st.text(max_size=5))
def test_no_user_or_client_widens_a_rule(user: str, client: str) -> None:
    """E13: whatever clients call themselves."""
    for name in ("home/other/x", "dev/other"):
        verdict = judged(
            "allow * all home/%u/#; allow * all dev/%c", Action.PUBLISH, name, user, client
        )
        assert verdict is (Verdict.ALLOWED if "other" in (user, client) else Verdict.SILENT)


@pytest.mark.parametrize("text", ["allow", "permit * all a", "allow * read a", "allow * all a/#/b"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting):
        read_rules(text)
