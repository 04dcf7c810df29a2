"""Takes the pictures of the console's pages for docs/: `python -m scripts.screenshots`.

It starts everything as `chordmq up` does, with demo devices and a few messages of a shop, waits
until the pipeline tells of its queries, and opens each page in Chromium.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.browser import chromium
from benchmarks.peers import FRONTS, ROOT, free_port

PAGES = {
    "overview": "", "topics": "topics", "queues": "queues", "clients": "clients",
    "topology": "topology", "devices": "devices", "device": "devices/cold-room-000",
    "pipeline": "pipeline", "security": "security", "settings": "settings",
}  # fmt: skip
SIZE = {"width": 1280, "height": 800}
PATIENCE_S = 240.0
SETTLE_MS = 6_000
"""Until curves have a course, and what is asked for has come."""


class NotReady(Exception):
    """Something did not come up in time."""


def main() -> None:
    """Take the chosen pictures."""
    parser = argparse.ArgumentParser(prog="python -m scripts.screenshots", description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(PAGES)}")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "img")
    options = parser.parse_args()
    if unknown := {*options.pages} - {*PAGES}:
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as directory, running(Path(directory)) as ports:
        site = f"http://127.0.0.1:{ports['http']}"
        fill(site)
        with demo(ports["mqtt"]), chromium() as browser:
            until(lambda: bool(ask(site, "/v1/pipeline").get("queries")), "the pipeline's queries")
            page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]  # a dict will do
            for name in options.pages or PAGES:
                page.goto(f"{site}/#/{PAGES[name]}")
                page.wait_for_timeout(SETTLE_MS)
                page.screenshot(path=options.to / f"console_{name}.png")
                print(options.to / f"console_{name}.png")


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


def ask(site: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask the node, or tell it something."""
    method = "GET" if body is None else "POST"
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


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise NotReady(f"{what}: not within {PATIENCE_S:g} s")
        time.sleep(0.5)


if __name__ == "__main__":
    main()
