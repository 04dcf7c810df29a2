"""`chordmq quotas`: what it prints, and what it refuses."""

import pytest

from tests.cli.command_line import CommandLine


def test_limits_are_set_listed_and_removed(cli: CommandLine, name: str) -> None:
    """C2: over Kafka's own API."""
    limits = ("--set", "producer_byte_rate=1000000", "--set", "request_percentage=12.5")
    assert cli("quotas", "set", "--for-user", name, "--client-id", "<default>", *limits).status == 0
    mine = [row for row in cli("quotas", "list", "--json").data if row["user"] == name]
    assert mine == [
        {
            "user": name,
            "client": "<default>",
            "ip": "",
            "limits": {"producer_byte_rate": 1e6, "request_percentage": 12.5},
        }
    ]
    assert "1e+06" in cli("quotas", "list").out or "1,000,000" in cli("quotas", "list").out
    resets = ("--reset", "producer_byte_rate", "--reset", "request_percentage")
    after = cli("quotas", "set", "--for-user", name, "--client-id", "<default>", *resets)
    assert name not in after.out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--for-user", "u"), 2),
        (("--set", "producer_byte_rate=1"), 2),
        (("--for-user", "u", "--set", "producer_byte_rate=much"), 2),
        (("--for-user", "u", "--set", "speed=1"), 1),
        (("--for-user", "u", "--set", "producer_byte_rate=-1"), 1),
    ],
)
def test_what_makes_no_sense_is_refused(
    cli: CommandLine, arguments: tuple[str, ...], status: int
) -> None:
    """2 for wrong usage, 1 when the broker refuses."""
    outcome = cli("quotas", "set", *arguments)
    assert outcome.status == status
    assert outcome.err
