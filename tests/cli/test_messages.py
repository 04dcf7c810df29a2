"""Lines become records and records become lines."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chordmq.client.consumer import Consumer, ConsumerSettings
from chordmq.client.membership import GroupSettings
from tests.cli.command_line import ENVIRONMENT, CommandLine
from tests.running_node import RunningNode


def test_lines_become_records_and_records_become_lines(cli: CommandLine, name: str) -> None:
    """X4: produce from standard input, consume to standard output."""
    produced = cli.ok("produce", name, stdin="one\ntwo\n\nlast without newline")
    assert "4 records" in produced.err
    assert cli.ok("consume", name).lines == ["one", "two", "", "last without newline"]


def test_keys_headers_and_formats(cli: CommandLine, name: str) -> None:
    cli.ok("produce", name, "-k", ":", "-H", "source=test", stdin="a:1\nb:2:3\n")
    shown = cli.ok("consume", name, "--format", r"%t|%p|%o|%k|%v|%h|%%\t.")
    assert shown.lines == [
        f"{name}|0|0|a|1|source=test|%\t.",
        f"{name}|0|1|b|2:3|source=test|%\t.",
    ]
    assert cli("produce", name, "-k", ":", stdin="no separator\n").status == 2


def test_json_lines_carry_everything_and_can_be_produced_again(cli: CommandLine, name: str) -> None:
    """X4: stable JSON; key, headers and bytes that are not text are preserved."""
    cli.ok("produce", name, "-k", ":", "-H", "h=x", stdin=b"k:v\n\xff\xfe:w\n")
    lines = cli.ok("consume", name, "--json").lines
    first, second = map(json.loads, lines)
    assert first | {"timestamp_ms": 0} == {
        "topic": name, "partition": 0, "offset": 0, "timestamp_ms": 0, "key": "k", "value": "v",
        "headers": [{"name": "h", "value": "x"}],
    }  # fmt: skip
    assert (second["key"], second["base64"]) == ("//4=", ["key"])
    cli.ok("produce", f"{name}-copy", "--json-lines", stdin="\n".join(lines))
    copied = map(json.loads, cli.ok("consume", f"{name}-copy", "--json").lines)
    drop = {"topic": None, "timestamp_ms": None}
    assert [row | drop for row in copied] == [row | drop for row in (first, second)]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_a_file_is_produced_compressed(
    cli: CommandLine, name: str, tmp_path: Path, compression: str
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"line {number}\n" for number in range(1_000)))
    done = cli.ok("produce", name, "--file", str(file), "-z", compression, "--json").data
    assert (done["records"], done["bytes"]) == (1_000, file.stat().st_size)
    assert cli.ok("consume", name).out == file.read_text()


def test_tombstones_delete_keys(cli: CommandLine, name: str) -> None:
    cli.ok("produce", name, "-k", ":", "--tombstones", stdin="gone:\n")
    assert json.loads(cli.ok("consume", name, "--json").out)["value"] is None


def test_a_rate_slows_the_producer_down(cli: CommandLine, name: str) -> None:
    lines = "".join(f"{number}\n" for number in range(20))
    done = cli.ok("produce", name, "--rate", "50", "--json", stdin=lines).data
    assert done["seconds"] >= 0.38


def test_reading_starts_where_it_is_told(cli: CommandLine, name: str) -> None:
    """C6: from earliest, latest, an offset, the last few, or a time."""
    cli.ok("produce", name, stdin="".join(f"{number}\n" for number in range(10)))
    for place, expected in {
        "earliest": "0123456789",
        "7": "789",
        "-2": "89",
        "latest": "",
        "1h": "0123456789",
        "0s": "",
        "2020-01-01": "0123456789",
    }.items():
        assert "".join(cli.ok("consume", name, "--from", place).lines) == expected, place
    assert cli.ok("consume", name, "-n", "3").lines == ["0", "1", "2"]
    assert cli("consume", name, "--from", "somewhere").status == 2


def test_several_topics_or_one_partition_are_read(cli: CommandLine, name: str) -> None:
    cli.ok("topics", "create", name, "-p", "2")
    cli.ok("produce", name, "-p", "0", stdin="zero\n")
    cli.ok("produce", name, "-p", "1", stdin="one\n")
    cli.ok("produce", f"{name}-2", stdin="two\n")
    assert cli.ok("consume", name, "-p", "1").lines == ["one"]
    assert sorted(cli.ok("consume", name, f"{name}-2").lines) == ["one", "two", "zero"]


def test_a_group_remembers_exactly_what_was_printed(cli: CommandLine, name: str) -> None:
    """A5: each reading of a group goes on where the last one stopped."""
    cli.ok("produce", name, stdin="".join(f"{number}\n" for number in range(10)))
    assert cli.ok("consume", name, "-g", name, "-n", "3").lines == ["0", "1", "2"]
    assert cli.ok("consume", name, "-g", name, "-n", "1").lines == ["3"]
    assert cli.ok("consume", name, "-g", name).lines == ["4", "5", "6", "7", "8", "9"]
    assert cli.ok("consume", name, "-g", name).lines == []


async def test_a_member_without_partitions_has_nothing_to_wait_for(
    cli: CommandLine, node: RunningNode, name: str
) -> None:
    await asyncio.to_thread(cli.ok, "produce", name, stdin="x\n")
    settings = GroupSettings(
        group=name,
        instance_id="a",
        session_timeout_ms=60_000,
        heartbeat_interval_s=0.1,
        rebalance_timeout_ms=60_000,
    )
    command = [sys.executable, "-m", "chordmq", "-b", node.bootstrap, "consume", name, "-g", name]
    async with Consumer(node.bootstrap, ConsumerSettings(group=settings)) as owner:
        await owner.subscribe(name)
        await owner.poll(60.0)
        second = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
        )
        while second.returncode is None:
            await owner.poll(0.1)
        assert await second.communicate() in ((b"", b""), (b"x\n", b""))
        assert second.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["-g", "g", "--from", "5"], ["-g", "g", "-p", "0"], ["--format", "%x"], ["-n", "0"]],
    ids=" ".join,
)
def test_what_makes_no_sense_is_wrong_usage(
    cli: CommandLine, name: str, arguments: list[str]
) -> None:
    cli.ok("topics", "create", name)
    assert cli("consume", name, *arguments).status == 2


def test_other_wrong_usage(cli: CommandLine, name: str, tmp_path: Path) -> None:
    assert cli("produce", name, "-z", "brotli", stdin="x").status == 2
    assert cli("produce", name, "--acks", "2", stdin="x").status == 2
    assert cli("produce", name, "-f", str(tmp_path / "none")).status == 2
    assert cli("produce", name, "--json-lines", stdin="not json\n").status == 2
    assert cli("produce", name, "--json-lines", stdin="[1]\n").status == 2


def test_a_follower_prints_what_comes_until_it_is_interrupted(
    cli: CommandLine, node: RunningNode, name: str
) -> None:
    """X4: follow a topic live, and stop with Ctrl-C without a traceback."""
    cli.ok("produce", name, stdin="before\n")
    command = [sys.executable, "-m", "chordmq", "-b", node.bootstrap]
    with subprocess.Popen(
        [*command, "consume", name, "--follow", "--group", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "before\n"
        cli.ok("produce", name, stdin="after\n")
        assert follower.stdout.readline() == "after\n"
        follower.send_signal(signal.SIGINT)
        out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out, err) == (0, "", "")
    assert cli.ok("groups", "lag", name, "--json").data["total_lag"] == 0


def test_an_interrupted_producer_ends_at_once_with_what_it_was_given_stored(
    cli: CommandLine, node: RunningNode, name: str
) -> None:
    """X4: Ctrl-C while waiting for input ends in one line."""
    cli.ok("topics", "create", name)
    with subprocess.Popen(
        [sys.executable, "-m", "chordmq", "-b", node.bootstrap, "produce", name],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as producer:
        assert producer.stdin is not None
        producer.stdin.write("typed\n")
        producer.stdin.flush()
        assert cli.ok("consume", name, "-n", "1", "--follow").lines == ["typed"]
        producer.send_signal(signal.SIGINT)
        assert producer.wait(60) == 130
        assert producer.stderr is not None
        assert producer.stderr.read() == "chordmq: interrupted\n"
