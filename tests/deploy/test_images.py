"""The images' recipe is carried out in clean roots, and what it makes is started."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.container import Container
from tests.deploy.recipe import Stage, carry_out
from tests.interop.program import ROOT
from tests.waiting import wait_until

PEER_PORT = 9094
"""Open only in a cluster."""
TOOLS = ("cc", "gcc", "g++", "make", "node", "npm", "javac", "git")
"""What builders may need, and nobody else."""
PIPELINE_S = 600.0
NOBODY_ELSE = "who may make roots and networks is root"


@contextmanager
def images(below: Path) -> Iterator[dict[str, Stage]]:
    """Carry out the recipe on what a clean clone holds; remove the gigabytes afterwards."""
    context = below / "context"
    context.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "HEAD"], capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(context)], input=archive.stdout, check=True)
    stages = below / "stages"
    stages.mkdir()
    try:
        yield carry_out(context / "deploy" / "Dockerfile", context, stages)
    finally:
        shutil.rmtree(stages)


def asked(container: Container, url: str) -> str:
    """Return what is answered at an address inside of the container."""
    script = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    return container.run("python", "-c", script, url)


def told(container: Container, url: str) -> Any:
    return json.loads(asked(container, url))


def check_size(image: Stage) -> None:
    """See that nothing of the builders has come along."""
    assert not image.place("/src").exists()
    assert not list(image.place("/var/lib/apt/lists").glob("*_Packages*"))
    assert not image.place("/root/.cache").exists()
    for folder in image.environment["PATH"].split(":"):
        found = {one for one in TOOLS if image.place(f"{folder}/{one}").exists()}
        assert not found, f"{found} in {folder}"


def check_user(container: Container) -> None:
    """See that the first process is nobody in particular, and may write to its volume only."""
    status = Path(f"/proc/{container.first}/status").read_text()
    assert "Uid:\t10001\t10001\t10001\t10001\n" in status
    container.run("sh", "-c", "touch /var/lib/chordmq/mine && rm /var/lib/chordmq/mine")
    container.run("sh", "-c", "! touch /opt/chordmq/theirs 2>/dev/null")


def check_node(node: Container) -> None:
    """See that it is healthy, listens where the image says, and has the console."""
    node.wait_until_healthy()
    check_user(node)
    ports = [str(port) for port in node.stage.ports if port != PEER_PORT]
    connect = (
        "import socket, sys; [socket.create_connection(('127.0.0.1', p)) for p in sys.argv[1:]]"
    )
    node.run("python", "-c", connect, *ports)
    assert '<script type="module"' in asked(node, "http://127.0.0.1:8080/")
    node.run(
        "sh", "-c", "chordmq topics create prices && echo apple=3 | chordmq produce prices -k ="
    )


def check_registry(image: Stage, below: Path) -> None:
    """See that it is healthy, wants its token, and ends when it is told to."""
    with Container(image, below / "registry.log", CHORDMQ_REGISTRY_TOKEN="secret") as registry:
        registry.wait_until_healthy()
        check_user(registry)
        assert registry.stop() == 0


def check_consumer(image: Stage, node: Container, below: Path) -> None:
    """See that it is healthy, and has a copy of what the node has."""
    with Container(image, below / "consumer.log", node, CONSUMER_TOPIC="prices") as consumer:
        consumer.wait_until_healthy()
        check_user(consumer)
        latest = "http://127.0.0.1:8091/v1/latest"
        wait_until(lambda: "apple" in asked(consumer, latest))
        assert consumer.stop() == 0


def check_pipeline(image: Stage, node: Container, below: Path) -> None:
    """See that Spark starts on the image's Java, and that readings of devices go through it."""
    with Container(image, below / "pipeline.log", node) as pipeline:
        pipeline.wait_until_healthy()
        check_user(pipeline)
        node.run("chordmq", "demo", "--devices", "5", "--seconds", "5")

        def has_read() -> bool:
            queries = told(node, "http://127.0.0.1:8080/v1/pipeline")["queries"]
            return any(one["query"] == "telemetry" and one["rows"] > 0 for one in queries)

        wait_until(has_read, PIPELINE_S)
        assert pipeline.stop() == 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_every_image_that_the_recipe_makes_starts_and_is_healthy(tmp_path: Path) -> None:
    """B8, E15: each step works where nothing else is installed, and so does what it has made."""
    assert os.geteuid() == 0, NOBODY_ELSE
    with images(tmp_path) as made:
        for name in ("node", "registry", "consumer", "pipeline"):
            check_size(made[name])
        check_registry(made["registry"], tmp_path)
        with Container(made["node"], tmp_path / "node.log") as node:
            check_node(node)
            check_consumer(made["consumer"], node, tmp_path)
            check_pipeline(made["pipeline"], node, tmp_path)
            assert node.stop() == 0
