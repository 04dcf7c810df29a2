"""Carries out the stages of a Dockerfile in clean roots, where no container engine can be had."""

import copy
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.deploy.roots import CERTIFICATES, PATH, base, copied, inside

STEP_TIMEOUT_S = 1500
TRUSTING = {"PIP_CERT": CERTIFICATES, "NODE_EXTRA_CA_CERTS": CERTIFICATES}
"""What steps are told beyond the recipe: that those are trusted whom this machine trusts."""


@dataclass(slots=True)
class Stage:
    """One stage: its root, and what its steps have set."""

    root: Path
    directory: str = "/"
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    user: str = "0"
    entry: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def place(self, path: str) -> Path:
        """Return where a path of the image lies; one that is relative is below the directory."""
        return self.root / os.path.normpath(Path("/", self.directory, path)).lstrip("/")

    def inside(self, command: Sequence[str], **variables: str) -> list[str]:
        """Return how to run a command as the stage would."""
        return inside(
            self.root, command, user=self.user, directory=self.directory,
            variables={**self.environment, **variables},
        )  # fmt: skip


def carry_out(recipe: Path, context: Path, below: Path) -> dict[str, Stage]:
    """Carry out every stage, and return them by name."""
    stages: dict[str, Stage] = {}
    stage = Stage(below)
    for word, rest in _steps(recipe):
        if word == "FROM":
            origin, _, name = rest.split()
            stage = stages[name] = _begun(stages.get(origin), below / name)
            copied(stages[origin].root if origin in stages else base(origin), stage.root)
        elif word == "COPY":
            _copy(rest, stage, stages, context)
        elif word == "RUN":
            command = stage.inside(["/bin/sh", "-c", rest], **TRUSTING)
            subprocess.run(command, check=True, timeout=STEP_TIMEOUT_S)
        else:
            _set(word, rest, stage)
            stage.place(".").mkdir(parents=True, exist_ok=True)
    return stages


def described(recipe: Path) -> dict[str, Stage]:
    """Return the stages as the recipe describes them, without any files."""
    stages: dict[str, Stage] = {}
    stage = Stage(Path())
    for word, rest in _steps(recipe):
        if word == "FROM":
            origin, _, name = rest.split()
            stage = stages[name] = _begun(stages.get(origin), Path())
        elif word not in ("COPY", "RUN"):
            _set(word, rest, stage)
    return stages


def _steps(recipe: Path) -> Iterator[tuple[str, str]]:
    """Yield what each step of a recipe does, and with what."""
    text = re.sub(r"^#.*\n", "", recipe.read_text(), flags=re.MULTILINE)
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest


def _begun(origin: Stage | None, root: Path) -> Stage:
    """Return a stage with all that its origin has set, if that is another stage."""
    return Stage(root) if origin is None else replace(copy.deepcopy(origin), root=root)


def _set(word: str, rest: str, stage: Stage) -> None:
    """Take a step that says how commands are run."""
    if word == "WORKDIR":
        stage.directory = rest
    elif word == "USER":
        stage.user = rest
    elif word == "ENV":
        for name, value in (pair.split("=", 1) for pair in rest.split()):
            known = re.sub(r"\$(\w+)", lambda one: stage.environment[one[1]], value)
            stage.environment[name] = known
    elif word in ("ENTRYPOINT", "CMD"):
        setattr(stage, "entry" if word == "ENTRYPOINT" else "arguments", _listed(rest))
    elif word == "EXPOSE":
        stage.ports += map(int, rest.split())
    elif word == "HEALTHCHECK":
        stage.health = _listed(rest.partition("CMD ")[2])
    else:
        assert word in ("VOLUME", "STOPSIGNAL"), f"what does {word} do?"


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
