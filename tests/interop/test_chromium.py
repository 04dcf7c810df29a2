"""E5: the gateway from a page in a real browser, which speaks WebSocket in its own way.

The page writes what it saw into its document. An image that the site holds back keeps Chromium from
printing the document before the page says that it is done.
"""

import html
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartNode
from tests.running_node import RunningNode

pytestmark = pytest.mark.interop

PAGE = """<!doctype html><meta charset="utf-8"><title>gateway</title><pre id="seen"></pre><script>
const url = "ws://127.0.0.1:PORT/ws?client=chromium", name = "NAME", seen = {}
function finish() {
  document.getElementById("seen").textContent = JSON.stringify(seen)
  fetch("/done", {method: "POST"})
}
function connect(protocol, onmessage) {
  const socket = new WebSocket(url, protocol)
  socket.binaryType = "arraybuffer"
  socket.onmessage = event => onmessage(socket, event.data)
  socket.onerror = () => { seen.error = "the connection failed"; finish() }
  return socket
}
const send = (socket, message) => socket.send(JSON.stringify(message))
function run(positions, count, done) {
  const values = []
  connect("chordmq.json", (socket, data) => {
    const told = JSON.parse(data)
    if (told.type === "welcome")
      send(socket, {type: "subscribe", id: 1, topic: name + "/devices/+/t", positions})
    else if (told.type === "subscribed") {
      positions = told.positions
      for (let i = 0; i < count; i++) {
        const topic = `${name}/devices/d${i % 3}/t`
        send(socket, {type: "publish", topic, value: `${count} ${i} grüße`})
      }
    } else if (told.type === "records") {
      positions[told.topic] = told.position
      for (const record of told.records) values.push(record.value)
      if (values.length >= count) {
        socket.onclose = () => done(values, positions)
        socket.close(1000)
      }
    } else if (told.type === "error") { seen.error = told; finish() }
  })
}
run(null, 200, (first, positions) => {
  seen.first = first
  run(positions, 100, second => {
    seen.second = second
    connect("chordmq.msgpack", (socket, data) => {
      seen.binary = new TextDecoder().decode(data).includes("welcome")
      finish()
    })
  })
})
</script><img src="/wait">"""


class Site:
    """A site of one page, whose image comes when the page says that it is done."""

    def __init__(self) -> None:
        self.page = ""
        self.done = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/wait":
                    site.done.wait(60)
                self._answer(200 if self.path == "/" else 404, site.page.encode())

            def do_POST(self) -> None:
                self._answer(200, b"")
                site.done.set()

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.done.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    """Give a site that is not the node's own."""
    site = Site()
    yield site
    site.close()


def seen_by_chromium(url: str, profile: Path) -> dict[str, Any]:
    """Return what a page has written into its document."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed"
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={profile}", "--timeout=60000", "--dump-dom", url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout + done.stderr
    seen: dict[str, Any] = json.loads(html.unescape(found[1]))
    return seen


def test_a_page_publishes_subscribes_and_resumes(
    start_node: StartNode, site: Site, name: str, tmp_path: Path
) -> None:
    """E5, C17: text and binary; back by position it misses nothing and repeats nothing."""
    node: RunningNode = start_node({"websocket.origins": site.url})
    site.page = PAGE.replace("PORT", str(node.http_address[1])).replace("NAME", name)
    seen = seen_by_chromium(site.url, tmp_path / "chromium")
    assert "error" not in seen, seen
    assert sorted(seen["first"]) == sorted(f"200 {number} grüße" for number in range(200))
    assert sorted(seen["second"]) == sorted(f"100 {number} grüße" for number in range(100))
    assert seen["binary"]


def test_a_page_of_another_site_is_refused(
    start_node: StartNode, site: Site, name: str, tmp_path: Path
) -> None:
    """E5: what a user looks at cannot talk to the node on the user's machine."""
    node: RunningNode = start_node()
    site.page = PAGE.replace("PORT", str(node.http_address[1])).replace("NAME", name)
    seen = seen_by_chromium(site.url, tmp_path / "chromium")
    assert seen["error"] == "the connection failed"
