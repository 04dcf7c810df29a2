"""Groups listed, measured, moved and deleted from the command line."""

import asyncio

import pytest

from chordmq.client.consumer import Consumer, ConsumerSettings
from chordmq.client.membership import GroupSettings
from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode


@pytest.fixture
def group(cli: CommandLine, name: str) -> str:
    """Give a group that has read three of ten records of a topic with its name."""
    cli.ok("produce", name, stdin="".join(f"{number}\n" for number in range(10)))
    cli.ok("consume", name, "--group", name, "-n", "3")
    return name


def test_groups_are_listed_and_their_lag_is_shown(cli: CommandLine, group: str) -> None:
    """X4: groups and lag, for people and for programs."""
    (row,) = [row for row in cli.ok("groups", "list", "--json").data if row["group"] == group]
    assert row["state"] == "Empty"
    assert group in cli.ok("groups", "list").out
    lag = cli.ok("groups", "lag", group, "--json").data
    assert lag == {
        "group": group,
        "total_lag": 7,
        "partitions": [
            {
                "topic": group, "partition": 0, "committed": 3, "start": 0, "end": 10, "lag": 7,
                "client_id": None, "member_id": None,
            }
        ],
    }  # fmt: skip
    assert "total lag 7" in cli.ok("groups", "lag", group).out


def test_a_reset_only_shows_what_it_would_do_until_told_to(cli: CommandLine, group: str) -> None:
    for place, expected in {
        "earliest": 0,
        "latest": 10,
        "5": 5,
        "-4": 6,
        "99": 10,
        "1h": 0,
    }.items():
        shown = cli.ok("groups", "reset", group, "--to", place, "--json").data
        assert shown == {
            "group": group,
            "executed": False,
            "partitions": [{"topic": group, "partition": 0, "from": 3, "to": expected}],
        }, place
    preview = cli.ok("groups", "reset", group, "--to", "1")
    assert "--execute" in preview.err
    assert cli.ok("groups", "lag", group, "--json").data["total_lag"] == 7
    cli.ok("groups", "reset", group, "--topic", group, "--to", "1", "--execute")
    assert cli.ok("groups", "lag", group, "--json").data["total_lag"] == 9
    assert cli.ok("consume", group, "--group", group, "-n", "1").lines == ["1"]


def test_a_group_that_read_nothing_needs_a_topic_to_reset(cli: CommandLine, name: str) -> None:
    outcome = cli("groups", "reset", name, "--to", "earliest")
    assert outcome.status == 2
    assert "--topic" in outcome.err


def test_a_deleted_group_is_gone(cli: CommandLine, group: str) -> None:
    assert cli("groups", "delete", group, stdin="n\n").status == 1
    cli.ok("groups", "delete", group, "--yes")
    outcome = cli("groups", "describe", group)
    assert outcome.status == 1
    assert "GROUP_ID_NOT_FOUND" in outcome.err


async def test_a_group_with_members_shows_them_and_cannot_be_moved(
    node: RunningNode, cli: CommandLine, name: str
) -> None:
    await asyncio.to_thread(cli.ok, "produce", name, stdin="x\n")
    settings = GroupSettings(group=name, session_timeout_ms=60_000, rebalance_timeout_ms=60_000)
    async with Consumer(node.bootstrap, ConsumerSettings(group=settings)) as consumer:
        await consumer.subscribe(name)
        await consumer.poll(60.0)
        described = (await asyncio.to_thread(cli.ok, "groups", "describe", name, "--json")).data
        assert described["state"] == "Stable"
        assert described["members"][0]["partitions"] == [{"topic": name, "partition": 0}]
        table = (await asyncio.to_thread(cli.ok, "groups", "describe", name)).out
        assert f"{name}:0" in table
        for refused in (
            ("groups", "reset", name, "--topic", name, "--to", "0", "--execute"),
            ("groups", "delete", name, "--yes"),
        ):
            outcome = await asyncio.to_thread(cli, *refused)
            assert outcome.status == 1
            assert "stop its consumers first" in outcome.err.lower()
