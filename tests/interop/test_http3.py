"""HTTP/2 with curl and httpx, HTTP/3 with aioquic, on a real node."""

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent

from tests.running_node import RunningNode, free_port

Answer = tuple[int, bytes]


class Browser(QuicConnectionProtocol):
    """One HTTP/3 connection."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._http = H3Connection(self._quic)
        self._statuses: dict[int, int] = {}
        self._bodies: dict[int, bytearray] = {}
        self._answers: dict[int, asyncio.Future[Answer]] = {}

    async def ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        stream = self._quic.get_next_available_stream_id()
        self._bodies[stream] = bytearray()
        self._answers[stream] = asyncio.get_running_loop().create_future()
        head = {":method": method, ":scheme": "https", ":authority": "localhost", ":path": path}
        head |= {"content-type": "application/json", "content-length": str(len(body))}
        raw = [(name.encode(), value.encode()) for name, value in head.items()]
        self._http.send_headers(stream, raw, end_stream=not body)
        if body:
            self._http.send_data(stream, body, end_stream=True)
        self.transmit()
        return await self._answers[stream]

    def quic_event_received(self, event: QuicEvent) -> None:
        for part in self._http.handle_event(event):
            if isinstance(part, HeadersReceived):
                self._statuses[part.stream_id] = int(dict(part.headers)[b":status"])
            elif isinstance(part, DataReceived):
                self._bodies[part.stream_id] += part.data
            if isinstance(part, HeadersReceived | DataReceived) and part.stream_ended:
                stream = part.stream_id
                self._answers[stream].set_result(
                    (self._statuses[stream], bytes(self._bodies[stream]))
                )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Give the port of a node that speaks HTTP/2 and 3, and the authority to trust."""
    authority = trustme.CA()
    certificate = tmp_path / "node.pem"
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    port = free_port()
    settings = {"http.tls.certificate": str(certificate), "http.http3_port": str(port)}
    node = RunningNode(tmp_path / "node-0", settings)
    try:
        node.start(wait=False)  # it would be asked without TLS
        yield port, tmp_path / "authority.pem"
        assert node.stop() == 0
        assert "Traceback" not in node.log.read_text()
    finally:
        node.close()


async def test_a_record_goes_in_over_http2_and_comes_out_over_http3(
    site: tuple[int, Path],
) -> None:
    """C17: the same routes, for real clients of each version."""
    port, authority = site
    trusted = ssl.create_default_context(cafile=authority)
    url = f"https://localhost:{port}"
    async with httpx.AsyncClient(http1=False, http2=True, verify=trusted, timeout=60) as client:
        while True:
            try:
                if (await client.get(f"{url}/ready")).status_code == 200:
                    break
            except httpx.TransportError:
                await asyncio.sleep(0.05)
        assert (await client.post(f"{url}/v1/topics", json={"name": "t"})).status_code == 201
        answer = await client.post(f"{url}/v1/topics/t/records", json={"value": "x" * 100_000})
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        async with client.stream("GET", f"{url}/v1/topics/t/stream") as stream:
            lines = stream.aiter_lines()
            while not (await anext(lines)).startswith("data:"):
                pass
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN)
    configuration.server_name = "localhost"
    configuration.load_verify_locations(str(authority))
    async with (
        asyncio.timeout(60),
        connect("127.0.0.1", port, configuration=configuration, create_protocol=Browser) as browser,
    ):
        assert isinstance(browser, Browser)
        status, body = await browser.ask("POST", "/v1/topics/t/records", b'{"value": "3"}')
        assert status == 200, body
        status, body = await browser.ask("GET", "/v1/topics/t/records")
        assert status == 200
        assert body.count(b'"offset"') == 2
        assert b"x" * 100_000 in body
        status, _ = await browser.ask("GET", "/v1/topics/t/stream")
        assert status == 426
    command = ["curl", "-s", "--http2", "--cacert", str(authority), "-w", "%{http_version}"]
    curl = await asyncio.to_thread(
        subprocess.run, [*command, f"{url}/healthz"], capture_output=True, check=True
    )
    assert curl.stdout == b'{"status":"ok"}2'
