"""The image's recipe is carried out, step by step, on what a clean clone holds."""

import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.deploy.recipe import Stage, carry_out
from tests.interop.program import ROOT
from tests.running_node import RunningNode


class NodeOfStage(RunningNode):
    """What the image starts, on ports that are free."""

    def __init__(self, directory: Path, stage: Stage, programs: Path) -> None:
        super().__init__(directory)
        self._stage = stage
        self._programs = programs

    def _command(self) -> list[str]:
        program, *arguments = self._stage.entry
        assert super()._command()[3] == arguments[0] == "serve"
        return [str(self._programs / program), *arguments, *super()._command()[4:]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_image_that_the_recipe_makes_serves_and_has_the_console(tmp_path: Path) -> None:
    """B8, E15: each step of the recipe works, and what it makes is a node with its console."""
    context = tmp_path / "context"
    context.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "HEAD"], capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(context)], input=archive.stdout, check=True)
    recipe = context / "deploy" / "Dockerfile"
    stages = carry_out(recipe, context, tmp_path / "stages", "node")
    node = stages["node"]
    assert node.user == "10001", "it does not run as root"
    # A virtual environment knows where it was made, so that it runs from there.
    programs = stages["build"].place("/opt/chordmq/bin")
    assert node.place("/opt/chordmq/bin/chordmq").exists()
    running = NodeOfStage(tmp_path / "node", node, programs)
    try:
        running.start()
        with urllib.request.urlopen(running.http, timeout=60) as answer:
            assert re.search(r'<script[^>]+src="\./assets/', answer.read().decode())
        program, *arguments = node.health
        asked = [one.replace("127.0.0.1:8080", running.http[7:]) for one in arguments]
        subprocess.run([str(programs / program), *asked], check=True, timeout=60)
    finally:
        running.close()


def test_everything_that_the_recipe_copies_is_let_through() -> None:
    """B8: the list of what the builder may see names all that it copies."""
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    copied = " ".join(re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)).split()
    assert {one.partition("/")[0] for one in copied} == allowed
