"""`chordmq routes`: rules by which names with levels find their topics."""

import httpx

from tests.cli.command_line import CommandLine
from tests.fronts.mqtt.client import Client
from tests.running_node import RunningNode


def test_rules_are_added_tried_listed_and_removed(
    cli: CommandLine, node: RunningNode, name: str
) -> None:
    """E8: visible and editable, for people and for programs."""
    url, wanted = f"--url={node.http}", f"{name}/+/+/telemetry"
    trial = ("routes", "test", f"{name}/7/press/telemetry", url)
    before = cli.ok(*trial, "--json").data
    assert (before["topic"], before["key"], before["filter"]) == (f"{name}.7", "press", None)
    cli.ok("routes", "add", wanted, f"{name}-t", "--key", "{2}-{3}", "--rank", "5", url)
    after = cli.ok(*trial, "--json").data
    assert (after["topic"], after["key"], after["filter"]) == (f"{name}-t", "7-press", wanted)
    assert f"{name}-t" in cli.ok(*trial).out
    rows = cli.ok("routes", "list", url, "--json").data
    row = next(one for one in rows if one["filter"] == wanted)
    assert (row["rank"], row["source"]) == (5, "store")
    assert wanted in cli.ok("routes", "list", url).out
    cli.ok("routes", "remove", wanted, url)
    assert cli.ok(*trial, "--json").data == before


def test_of_two_rules_the_one_of_lower_rank_counts(
    cli: CommandLine, node: RunningNode, name: str
) -> None:
    """E8: the first whose filter matches."""
    url = f"--url={node.http}"
    cli.ok("routes", "add", f"{name}/#", f"{name}-all", "--rank", "9", url)
    cli.ok("routes", "add", f"{name}/a/#", f"{name}-a", "--rank", "1", url)
    for tried, topic in ((f"{name}/a/b", f"{name}-a"), (f"{name}/b/b", f"{name}-all")):
        assert cli.ok("routes", "test", tried, url, "--json").data["topic"] == topic


def test_rules_that_make_no_sense_are_refused(node: RunningNode, name: str) -> None:
    """E8, C10: a filter that is none, a topic of the broker's own, a rule that is not there."""
    url = f"{node.http}/v1/routes"
    for body in (
        {"filter": "a/#/b", "topic": name},
        {"filter": f"{name}/#", "topic": "__sessions"},
        {"filter": f"{name}/#", "topic": "no spaces"},
        {"filter": f"{name}/#", "topic": name, "key": ""},
    ):
        assert httpx.post(url, json=body, timeout=60).status_code == 400, body
    assert httpx.delete(url, params={"filter": f"{name}/#"}, timeout=60).status_code == 404


def test_a_rule_counts_at_once_and_after_a_restart(own_node: RunningNode, name: str) -> None:
    """E8: who has subscribed before gets what goes to the rule's topic."""
    reader = Client(own_node.mqtt_address)
    reader.connect("")
    reader.subscribe(f"{name}/#", qos=1)
    rule = {"filter": f"{name}/+/x", "topic": f"{name}-x", "key": "{2}"}
    assert httpx.post(f"{own_node.http}/v1/routes", json=rule, timeout=60).status_code == 200
    writer = Client(own_node.mqtt_address)
    writer.connect("")
    writer.publish(f"{name}/d7/x", b"by rule", 1)
    writer.publish(f"{name}/d7/y", b"without", 1)
    assert {reader.message().payload for _ in range(2)} == {b"by rule", b"without"}
    own_node.restart()
    assert httpx.get(f"{own_node.http}/v1/topics/{name}-x", timeout=60).status_code == 200
    tried = httpx.get(
        f"{own_node.http}/v1/routes/test", params={"name": f"{name}/d8/x"}, timeout=60
    ).json()
    assert (tried["topic"], tried["key"]) == (f"{name}-x", "d8")
