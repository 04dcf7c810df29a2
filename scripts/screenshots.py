"""Takes the pictures of the console's pages for docs/: `python -m scripts.screenshots`.

It starts everything as `chordmq up` does, with demo devices and a few messages of a shop, waits
until the pipeline tells of its queries, and opens each page in Chromium. A tree of nodes and a
cluster are started for the pages that show them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page

from benchmarks.browser import chromium
from benchmarks.peers import FRONTS, ROOT, free_port
from tests.cluster.running_cluster import RunningCluster
from tests.running_node import RunningNode
from tests.topology.running_registry import RunningRegistry

SIZE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 780}
PATIENCE_S = 240.0
SETTLE_MS = 6_000
"""Until curves have a course, and what is asked for has come."""

NODES = 5
"""Of the cluster: enough for the ring to have fingers."""
PLACES = {"head-office": "ROOT", "north": "L2", "south": "L2", "oslo": "POS", "rome": "POS"}
"""Nodes of the tree and what they are in it, parents first."""


class NotReady(Exception):
    """Something did not come up in time."""


def main() -> None:
    """Take the chosen pictures."""
    known = [name for pages in SCENES.values() for name in pages]
    parser = argparse.ArgumentParser(prog="python -m scripts.screenshots", description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(known)}")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "img")
    options = parser.parse_args()
    if unknown := {*options.pages} - {*known}:
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    with chromium() as browser:
        page = browser.new_page()
        for scene, pages in SCENES.items():
            chosen = [name for name in pages if name in (options.pages or pages)]
            if not chosen:
                continue
            with tempfile.TemporaryDirectory() as directory, scene(Path(directory)) as site:
                for name in chosen:
                    page.set_viewport_size(PHONE if name == "phone" else SIZE)  # type: ignore[arg-type]
                    page.goto(f"{site}/#/{pages[name]}")
                    if name in CLICKS:
                        CLICKS[name](page)
                    page.wait_for_timeout(SETTLE_MS)
                    page.screenshot(path=options.to / f"console_{name}.png")
                    print(options.to / f"console_{name}.png")


@contextmanager
def everything(directory: Path) -> Iterator[str]:
    """Run all that one machine can: a node, its pipeline, demo devices and a shop; give its URL."""
    with running(directory) as ports:
        site = f"http://127.0.0.1:{ports['http']}"
        fill(site)
        with demo(ports["mqtt"]):
            until(lambda: bool(ask(site, "/v1/pipeline").get("queries")), "the pipeline's queries")
            yield site


@contextmanager
def shop(directory: Path) -> Iterator[str]:
    """Run a node with the topics of a shop and a group that is behind; give its URL."""
    node = RunningNode(directory)
    try:
        node.start()
        fill(node.http)
        rows = [{"topic": "orders", "partition": index, "offset": 2} for index in range(3)]
        ask(node.http, "/v1/groups/billing/offsets", {"offsets": rows}, "PUT")
        yield node.http
    finally:
        node.close()


@contextmanager
def tree(directory: Path) -> Iterator[str]:
    """Run a head office, two regions below it and a branch in each; give the URL of a region."""
    registry = RunningRegistry(directory / "registry")
    nodes: list[RunningNode] = []
    try:
        registry.start()
        for name, role in PLACES.items():
            settings = {"registry": registry.url, "node": name, "role": role, "topics": "orders"}
            node = RunningNode(
                directory / name, {f"pipes.{key}": text for key, text in settings.items()}
            )
            nodes.append(node)
            node.start()
            until(partial(is_registered, registry.url, name), name)
        fill(nodes[0].http)
        until(lambda: bool(ask(nodes[1].http, "/v1/pipes")["pipes"]), "what is copied")
        yield nodes[1].http
    finally:
        for node in nodes:
            node.close()
        registry.kill9()


@contextmanager
def ring(directory: Path) -> Iterator[str]:
    """Run a cluster with a few topics; give the URL of one of its nodes."""
    with RunningCluster(directory, NODES) as cluster:
        fill(cluster.nodes[1].http)
        yield cluster.nodes[1].http


@contextmanager
def running(directory: Path) -> Iterator[dict[str, int]]:
    """Run a node with its pipeline; give its ports."""
    ports = {front: free_port() for front in FRONTS}
    command = [sys.executable, "-m", "chordmq", "up", "--pipeline"]
    for front, port in ports.items():
        command += ["--set", f"{front}.port={port}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
    try:
        until(lambda: is_ready(f"http://127.0.0.1:{ports['http']}"), "the node")
        yield ports
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def demo(port: int) -> Iterator[None]:
    """Drive some devices."""
    command = [sys.executable, "-m", "chordmq", "demo", "-d", "60", "-a", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def fill(site: str) -> None:
    """Give the pages something to show besides devices."""
    for topic in ("orders", "payments"):
        ask(site, "/v1/topics", {"name": topic, "partitions": 3})
        for number in range(30):
            body = {"key": f"customer-{number % 7}", "value": json.dumps({"number": number})}
            ask(site, f"/v1/topics/{topic}/records", body)


def open_message(page: Page) -> None:
    """Look at one message of many."""
    page.get_by_role("region", name="Messages").locator("tbody tr").nth(3).click()


def preview(page: Page) -> None:
    """See where a group's offsets would go."""
    page.get_by_label("To", exact=True).select_option("the end")
    page.get_by_role("button", name="Preview").click()


def ask(
    site: str, path: str, body: dict[str, Any] | None = None, method: str = "POST"
) -> dict[str, Any]:
    """Ask the node, or tell it something."""
    method = "GET" if body is None else method
    answer = httpx.request(method, site + path, json=body, timeout=30).raise_for_status()
    found: dict[str, Any] = answer.json() if answer.content else {}
    return found


def is_ready(site: str) -> bool:
    """Return whether the node serves clients."""
    try:
        ask(site, "/ready")
    except (httpx.HTTPError, ValueError):
        return False
    return True


def is_registered(registry: str, name: str) -> bool:
    """Return whether a node has its place in the tree."""
    return name in ask(registry, "/v1/topology")["nodes"]


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise NotReady(f"{what}: not within {PATIENCE_S:g} s")
        time.sleep(0.5)


SCENES: dict[Callable[[Path], AbstractContextManager[str]], dict[str, str]] = {
    everything: {
        "overview": "", "topics": "topics", "queues": "queues", "clients": "clients",
        "devices": "devices", "device": "devices/cold-room-000", "pipeline": "pipeline",
        "security": "security", "settings": "settings",
    },
    shop: {"messages": "topics/orders", "group": "groups/billing", "phone": "topics/orders"},
    tree: {"topology": "topology"},
    ring: {"cluster": "cluster"},
}  # fmt: skip
"""What is to run for which pages, and where each page is."""
CLICKS: dict[str, Callable[[Page], None]] = {"messages": open_message, "group": preview}
"""What is to be done on a page before its picture is taken."""


if __name__ == "__main__":
    main()
