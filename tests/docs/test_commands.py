"""The commands in the documents: every block that is marked runs, in the order of its page."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command_line import ENVIRONMENT
from tests.conftest import StartNode
from tests.running_node import RunningNode

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"<!-- run( beside the rest)? -->\n```(sh|python)\n(.*?)```", re.DOTALL)
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if BLOCK.search(path.read_text())
)
PATIENCE_S = 120


def adapted(script: str, node: RunningNode, directory: Path) -> str:
    """Let a script speak to the test's node, and write where the test may."""
    mqtt, amqp = (f'"{host}", {port}' for host, port in (node.mqtt_address, node.amqp_address))
    for said, meant in {
        "127.0.0.1:9092": node.bootstrap,
        "127.0.0.1:8080": node.http.removeprefix("http://"),
        "localhost:8080": node.http.removeprefix("http://"),
        '"127.0.0.1", 1883': mqtt,
        '"127.0.0.1", 5672': amqp,
        ".venv/bin/chordmq": "chordmq",
        "/backups/": f"{directory}/",
    }.items():
        script = script.replace(said, meant)
    return script


def command(language: str, script: str) -> list[str]:
    if language == "python":
        return [sys.executable, "-c", script]
    return ["bash", "-c", f"set -euo pipefail\n{script}"]


@contextmanager
def beside(language: str, script: str, directory: Path, env: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        command(language, script), cwd=directory, env=env, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_there_are_pages_with_commands_to_run() -> None:
    assert "README.md" in PAGES
    assert len(PAGES) >= 4


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work(page: str, start_node: StartNode, tmp_path: Path) -> None:
    """X4: what the documents tell people to type is what works."""
    node = start_node()
    programs = Path(sys.executable).parent
    env = ENVIRONMENT | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "CHORDMQ_BOOTSTRAP": node.bootstrap,
        "CHORDMQ_URL": node.http,
    }
    blocks = BLOCK.findall((ROOT / page).read_text())
    run = [block for block in blocks if not block[0]]
    background = [block for block in blocks if block[0]]
    assert len(background) <= 1
    with beside(*_script(background, node, tmp_path), tmp_path, env):
        for _, language, script in run:
            done = subprocess.run(
                command(language, adapted(script, node, tmp_path)),
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


def _script(
    background: list[tuple[str, str, str]], node: RunningNode, directory: Path
) -> tuple[str, str]:
    """Return what runs beside the rest of a page, or something that does nothing."""
    if not background:
        return "sh", "exec sleep infinity"
    return background[0][1], adapted(background[0][2], node, directory)
