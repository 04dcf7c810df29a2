"""The files of the web console, served to a client of the routes."""

import gzip
from pathlib import Path

import httpx
import pytest

from chordmq.fronts.admin import console


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with what a build leaves behind."""
    (tmp_path / "static" / "assets").mkdir(parents=True)
    monkeypatch.setattr(console, "FOLDER", tmp_path / "static")
    (tmp_path / "static" / "index.html").write_text("<title>built</title>")
    script = tmp_path / "static" / "assets" / "index-1.js"
    script.write_text("go()")
    script.with_name("index-1.js.gz").write_bytes(gzip.compress(b"go()"))
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "static"


async def test_a_node_without_a_built_console_says_how_to_build_it(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """X3: nothing is broken; a page names the command."""
    monkeypatch.setattr(console, "FOLDER", tmp_path / "nowhere")
    answer = await http.get("/")
    assert answer.status_code == 200
    assert "make console" in answer.text


async def test_the_console_is_read_anew_and_its_parts_for_ever(
    http: httpx.AsyncClient, built: Path
) -> None:
    """X3: after an update the next visit shows the new console."""
    page = await http.get("/")
    assert page.text == "<title>built</title>"
    assert page.headers["cache-control"] == "no-cache"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    part = await http.get("/assets/index-1.js")
    assert (part.status_code, part.text) == (200, "go()")
    assert "immutable" in part.headers["cache-control"]
    assert part.headers["content-type"].startswith("text/javascript")


async def test_parts_are_compressed_for_those_who_take_that(
    http: httpx.AsyncClient, built: Path
) -> None:
    """X3: the compressed file is sent as it lies there."""
    packed = await http.get("/assets/index-1.js")
    plain = await http.get("/assets/index-1.js", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text


@pytest.mark.parametrize("name", ["none.js", "..%2f..%2fsecret", "../../secret", "%2e%2e/secret"])
async def test_nothing_but_the_console_is_served(
    http: httpx.AsyncClient, built: Path, name: str
) -> None:
    """C8: no name leads out of the folder."""
    answer = await http.get(f"/assets/{name}")
    assert answer.status_code == 404
    assert "secret" not in answer.text
