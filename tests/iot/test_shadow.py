"""The shadow of a device."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import InvalidShadow, ShadowTooLarge, StaleVersion
from chordmq.iot.shadow import (
    Document,
    Limits,
    Shadow,
    Update,
    deleted,
    difference,
    merged,
    updated,
)

LEAVES = st.one_of(
    st.booleans(), st.integers(-5, 5), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=2)
)
NAMES = st.sampled_from(["a", "b", "version", "timestamp"])


def documents(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    return st.dictionaries(
        NAMES, st.recursive(leaves, lambda inner: st.dictionaries(NAMES, inner, max_size=3)),
        max_size=4,
    )  # fmt: skip


STATES = documents(LEAVES)
PATCHES = documents(st.one_of(LEAVES, st.none()))


def update(text: str) -> Update:
    return msgspec.json.decode(text, type=Update)


def without_nulls(document: Document) -> Document:
    return {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if value is not None
    }


@given(STATES, PATCHES)
def test_a_patch_is_merged_as_rfc_7396_says(state: Document, patch: Document) -> None:
    """E9: null deletes, objects are merged, lists are replaced; the old state is not touched."""

    def reference(old: Any, new: Any) -> Any:
        if not isinstance(new, dict):
            return new
        result = dict(old) if isinstance(old, dict) else {}
        for name, value in new.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = reference(result.get(name), value)
        return result

    before = msgspec.json.encode(state)
    found, _ = merged(state, {}, patch, {"version": 1, "timestamp": 1})
    assert found == reference(state, patch)
    assert msgspec.json.encode(state) == before


@given(STATES, STATES)
def test_a_device_that_reports_the_delta_has_none_any_more(
    desired: Document, reported: Document
) -> None:
    """E9: the delta is what is missing, no more and no less."""
    delta = difference(desired, reported)
    after, _ = merged(reported, {}, delta, {"version": 1, "timestamp": 1})
    assert difference(desired, after) == {}
    assert difference(desired, desired) == {}


@given(st.lists(st.tuples(st.sampled_from(["desired", "reported"]), PATCHES), max_size=6))
def test_every_field_knows_the_version_that_changed_it(changes: list[tuple[str, Document]]) -> None:
    """E9: metadata has the form of the state, and no version beyond the shadow's."""
    shadow = Shadow()
    for side, patch in changes:
        shadow = updated(shadow, msgspec.convert({"state": {side: patch}}, Update), Limits(), 5)
    assert shadow.version == len(changes)

    def check(state: Document, metadata: Document) -> None:
        assert state.keys() == metadata.keys()
        for name, value in state.items():
            if isinstance(value, dict):
                check(value, metadata[name])
            else:
                assert 1 <= metadata[name]["version"] <= shadow.version

    check(shadow.desired, shadow.desired_metadata)
    check(shadow.reported, shadow.reported_metadata)


def test_an_update_for_another_version_is_refused_with_the_current_one() -> None:
    """E9: optimistic concurrency."""
    shadow = updated(Shadow(), update('{"state":{"desired":{"a":1}}}'), Limits(), 1)
    with pytest.raises(StaleVersion, match="has version 1, not 0"):
        updated(shadow, update('{"state":{"desired":{"a":2}},"version":0}'), Limits(), 2)


def test_an_update_conflicts_only_where_a_field_has_changed_since() -> None:
    """E9: versions per field let two clients change different fields at once."""
    shadow = updated(Shadow(), update('{"state":{"desired":{"a":1,"n":{"x":1}}}}'), Limits(), 1)
    shadow = updated(shadow, update('{"state":{"desired":{"n":{"y":2}}}}'), Limits(), 2)
    after = updated(
        shadow, update('{"state":{"desired":{"a":2,"n":{"x":3}}},"base_version":1}'), Limits(), 3
    )
    assert after.desired == {"a": 2, "n": {"x": 3, "y": 2}}
    for patch in ('{"n":{"y":9}}', '{"n":null}', '{"n":5}', "null"):
        with pytest.raises(StaleVersion):
            updated(
                shadow,
                update('{"state":{"desired":%s},"base_version":1}' % patch),  # noqa: UP031
                Limits(),
                3,
            )


def test_a_deleted_shadow_keeps_its_version() -> None:
    """E9: who has an old version cannot bring back what was deleted."""
    shadow = updated(Shadow(), update('{"state":{"desired":{"a":1}}}'), Limits(), 1)
    gone = deleted(shadow, 2)
    assert (gone.is_deleted, gone.version, gone.desired) == (True, 2, {})
    with pytest.raises(StaleVersion):
        updated(gone, update('{"state":{"desired":{"a":1}},"version":1}'), Limits(), 3)


def test_a_shadow_has_limits() -> None:
    """E9: size and depth."""
    limits = Limits(size_max=100, depth_max=3)
    with pytest.raises(ShadowTooLarge):
        updated(
            Shadow(), msgspec.convert({"state": {"desired": {"a": "x" * 90}}}, Update), limits, 1
        )
    with pytest.raises(InvalidShadow, match="3 levels"):
        updated(Shadow(), update('{"state":{"desired":{"a":{"b":{"c":{}}}}}}'), limits, 1)
    with pytest.raises(InvalidShadow, match="neither"):
        updated(Shadow(), update('{"state":{}}'), limits, 1)
