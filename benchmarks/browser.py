"""A real Chromium, and a site that serves the JavaScript SDK as it is in the repository."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from benchmarks.peers import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = "/usr/bin/chromium"
SDK = ROOT / "sdk" / "js"


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Run a browser without a window."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def sdk_site() -> Iterator[str]:
    """Serve the SDK to pages of any site; give the address."""
    handler = partial(_Files, directory=str(SDK))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Files(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        """Let pages of other sites have it."""
        self.send_header("access-control-allow-origin", "*")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
        """Say nothing."""
