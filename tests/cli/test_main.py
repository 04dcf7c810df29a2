"""The command as a whole: help, completion, exit statuses, and errors in one line."""

import re
import shlex
import subprocess
import sys

from tests.cli.command_line import ENVIRONMENT, CommandLine, all_commands, all_groups
from tests.running_node import RunningNode, free_port
from tests.waiting import wait_until


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT | environment,
        check=False,
    )


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "chordmq", *arguments, **environment)


def test_help_names_every_command_and_shows_how_to_begin() -> None:
    """X4: help teaches."""
    shown = run("--help").stdout
    for command in ("up", "serve", "topics", "produce", "consume", "groups", "bench", "doctor"):
        assert f"\n  {command} " in shown
    assert "echo world | chordmq produce hello" in shown


EXAMPLE = re.compile(r"^ +(?:.*\| |[A-Z_]+=\S+ )?chordmq (.+)$", re.MULTILINE)


def examples(text: str) -> list[str]:
    """Return what follows `chordmq` on the lines of a help text that are commands to copy."""
    return [found.partition("   ")[0] for found in EXAMPLE.findall(text)]


def test_every_command_has_an_example_to_copy() -> None:
    """X4: help teaches."""
    lacking = [words for words, one in all_commands().items() if not examples(one.help or "")]
    assert lacking == []


def test_every_example_is_a_command_that_there_is() -> None:
    """X4: help teaches nothing wrong: commands and options of its examples are known."""
    cli = CommandLine("127.0.0.1:1")
    texts = [one.help or "" for one in (*all_commands().values(), *all_groups())]
    found = [example for text in texts for example in examples(text)]
    assert len(found) > 100
    for example in found:
        # A profile must be there, and the one of the example is not.
        words = shlex.split(re.sub(r"^--profile \S+", "", example), comments=True)
        end = next((at for at, word in enumerate(words) if word in ("|", ">", "&&", "&")), None)
        outcome = cli(*words[:end], "--help")
        assert outcome.status == 0, f"chordmq {example}: {outcome.err}"


def test_help_loads_nothing_heavy() -> None:
    """X4: the command line answers at once; what a command needs is loaded when it runs."""
    check = (
        "import sys\n"
        "from chordmq.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('asyncio', 'rich', 'uvloop', 'yaml', 'chordmq.client.cluster', *HEAVY)\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    shown = run_python("-c", check.replace("*HEAVY", ""), "--help")
    assert shown.stderr.strip() == "[]"
    others = "'chordmq.cli.bench', 'chordmq.cli.messages', 'chordmq.cli.doctor'"
    serving = run_python("-c", check.replace("*HEAVY", others), "serve", "--help")
    assert serving.stderr.strip() == "[]", "a node starts without the other commands"


def test_the_shell_can_complete_commands() -> None:
    """X4: shell completion."""
    # The shell that asks is looked up among the parents, which are make and sh in CI.
    asking = ["bash", "-c", '"$0" -m chordmq --show-completion; exit $?', sys.executable]
    shown = subprocess.run(asking, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert "_CHORDMQ_COMPLETE" in shown.stdout
    completed = run(_CHORDMQ_COMPLETE="complete_bash", COMP_WORDS="chordmq topi", COMP_CWORD="1")
    assert completed.stdout.split() == ["topics"]


def test_the_shell_completes_names_that_the_broker_knows(
    cli: CommandLine, node: RunningNode, name: str
) -> None:
    """X4: shell completion of topics and groups; silent where no broker answers."""
    cli.ok("produce", f"{name}-topic", stdin="x\n")
    cli.ok("consume", f"{name}-topic", "--group", f"{name}-group")

    def complete(words: str, bootstrap: str) -> list[str]:
        completed = run(
            _CHORDMQ_COMPLETE="complete_bash",
            COMP_WORDS=words,
            COMP_CWORD=str(len(words.split()) - 1),
            CHORDMQ_BOOTSTRAP=bootstrap,
        )
        assert completed.stderr == ""
        return completed.stdout.split()

    # Who types does not wait for long: a busy broker may be asked in vain.
    wait_until(lambda: complete(f"chordmq consume {name}", node.bootstrap) == [f"{name}-topic"])
    wait_until(lambda: complete(f"chordmq groups lag {name}", node.bootstrap) == [f"{name}-group"])
    assert complete(f"chordmq consume {name}", f"127.0.0.1:{free_port()}") == []


def test_the_version_is_printed() -> None:
    assert CommandLine("127.0.0.1:1").ok("--version").out.startswith("chordmq 0.")


def test_nobody_to_connect_to_is_status_3_and_one_line_that_helps() -> None:
    """X4: exit codes, and errors that say what to do."""
    ended = run("topics", "list", CHORDMQ_BOOTSTRAP=f"127.0.0.1:{free_port()}")
    assert ended.returncode == 3
    assert len(ended.stderr.splitlines()) == 1
    assert "connection refused" in ended.stderr
    assert "chordmq up" in ended.stderr


def test_an_option_beats_the_environment(node: RunningNode) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    for arguments in (
        ("--bootstrap", node.bootstrap, "topics", "list"),
        ("topics", "list", "--bootstrap", node.bootstrap),
    ):
        assert run(*arguments, CHORDMQ_BOOTSTRAP=nowhere).returncode == 0


def test_wrong_usage_is_status_2() -> None:
    cli = CommandLine("127.0.0.1:1")
    assert cli("no-such-command").status == 2
    assert cli("topics", "create").status == 2
    assert cli("topics", "alter", "t").status == 2
    assert CommandLine("not:an:address")("topics", "list").status == 2


def test_a_reader_that_goes_away_ends_the_command_without_noise(
    cli: CommandLine, name: str, node: RunningNode
) -> None:
    cli.ok("produce", name, stdin="".join(f"{number:0100}\n" for number in range(5_000)))
    consume = f"{sys.executable} -m chordmq -b {node.bootstrap} consume {name}"
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{consume} | head -1"],
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
        check=False,
    )
    assert ended.stdout == "0" * 100 + "\n"
    assert ended.stderr == ""


def test_what_nobody_thought_of_ends_in_one_line() -> None:
    script = (
        "import chordmq.cli.main as m\n"
        "def fault(*a, **k): raise RuntimeError('boom')\n"
        "m.run = fault\n"
        "m.main()"
    )
    ended = run_python("-c", script)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == ["chordmq: RuntimeError: boom (set CHORDMQ_DEBUG=1)"]
