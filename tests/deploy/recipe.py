"""Carries out stages of a Dockerfile in a plain directory, where no container engine can be had."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

STEP_TIMEOUT_S = 900
ROOTS = ("/src", "/opt/chordmq", "/var/lib/chordmq")
"""What the recipe names from the root on; here it lies below the directory of its stage."""


@dataclass(slots=True)
class Stage:
    """One stage: a directory that stands for its root, and what it has set."""

    root: Path
    directory: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0"
    entry: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def place(self, path: str) -> Path:
        """Return where a path of the image lies; one that is relative is below the directory."""
        return self.root / os.path.normpath(Path("/", self.directory, path)).lstrip("/")

    def meant(self, text: str) -> str:
        """Return a command or a value with the paths that it has here."""
        pattern = "|".join(map(re.escape, ROOTS))
        return re.sub(rf"(?<![\w./])({pattern})\b", rf"{self.root}\1", text)

    def variables(self) -> dict[str, str]:
        """Return the environment of its commands; the image's Python and Node are ours."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        outer = {**os.environ, "PATH": path}
        outer.pop("PYTHONPATH", None)
        known = {**outer}
        for name, value in self.environment.items():
            known[name] = self.meant(re.sub(r"\$(\w+)", lambda one: known[one[1]], value))
        return known


def carry_out(recipe: Path, context: Path, below: Path, last: str) -> dict[str, Stage]:
    """Carry out every stage up to the last one that is named, and return them by name."""
    text = re.sub(r"^#.*\n", "", recipe.read_text(), flags=re.MULTILINE)
    stages: dict[str, Stage] = {}
    stage = Stage(below)
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            if last in stages:
                break
            stage = stages[rest.split()[-1]] = Stage(below / rest.split()[-1])
            stage.root.mkdir(parents=True)
        elif word:
            _step(word, rest, stage, stages, context)
    return stages


def _step(word: str, rest: str, stage: Stage, stages: dict[str, Stage], context: Path) -> None:
    if word == "WORKDIR":
        stage.directory = rest
        stage.place(".").mkdir(parents=True, exist_ok=True)
    elif word == "COPY":
        _copy(rest, stage, stages, context)
    elif word == "RUN" and not rest.startswith("useradd "):  # nobody is to be added to this machine
        subprocess.run(
            ["bash", "-ec", stage.meant(rest)], cwd=stage.place("."), env=stage.variables(),
            check=True, timeout=STEP_TIMEOUT_S,
        )  # fmt: skip
    elif word == "ENV":
        stage.environment |= dict(pair.split("=", 1) for pair in rest.split())
    elif word == "USER":
        stage.user = rest
    elif word in ("ENTRYPOINT", "CMD"):
        stage.entry += _listed(rest)
    elif word == "HEALTHCHECK":
        stage.health = _listed(rest.partition("CMD ")[2])


def _copy(rest: str, stage: Stage, stages: dict[str, Stage], context: Path) -> None:
    source = re.match(r"--from=(\S+) ", rest)
    *names, target = rest[source.end() if source else 0 :].split()
    for name in names:
        found = stages[source[1]].place(name) if source else context / name
        if found.is_dir():
            shutil.copytree(found, stage.place(target), symlinks=True, dirs_exist_ok=True)
        else:
            place = stage.place(target)
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, place)


def _listed(text: str) -> list[str]:
    """Read the exec form of a command."""
    return re.findall(r'"((?:[^"\\]|\\.)*)"', text)
