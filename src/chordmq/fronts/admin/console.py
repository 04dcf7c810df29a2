"""The web console: the files that `make console` builds, or a page that says how to build them."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from mimetypes import guess_type
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "static"
"""Where the build puts its files; not in the repository, but in the wheel."""
NOT_BUILT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ChordMQ</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 40rem; margin: 4rem auto; padding: 0 1rem }
</style>
<h1>ChordMQ runs; its console is not built</h1>
<p>Build it with <code>make console</code> (it needs Node.js and npm) and load this page again.
The node need not be restarted.</p>
<p><a href="docs">The HTTP API</a> · <a href="metrics">metrics</a> · <a href="ready">ready?</a></p>
</html>
"""
SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
FRESH = {"cache-control": "no-cache"}
FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}
"""Names of assets change with their contents."""


async def page(request: Request) -> Response:
    """Show the console."""
    answer = await _file(request, "index.html", FRESH)
    if answer is None:
        return HTMLResponse(NOT_BUILT, headers=SECURITY | FRESH)
    return answer


async def asset(request: Request) -> Response:
    """Return a part of the console."""
    answer = await _file(request, f"assets/{request.path_params['name']}", FOR_EVER)
    if answer is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "no such file")
    return answer


async def _file(request: Request, name: str, caching: Mapping[str, str]) -> Response | None:
    """Return a built file, compressed if the client takes that; None if there is none."""
    takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
    found = await asyncio.to_thread(_read, name, takes_gzip)
    if found is None:
        return None
    content, encoding = found
    media, _ = guess_type(name)
    headers = SECURITY | dict(caching) | {"vary": "accept-encoding"} | encoding
    return Response(content, headers=headers, media_type=media)


def _read(name: str, takes_gzip: bool) -> tuple[bytes, dict[str, str]] | None:
    path = FOLDER / name
    for chosen, encoding in ((f"{path}.gz", {"content-encoding": "gzip"}), (str(path), {})):
        if takes_gzip or not encoding:
            try:
                return Path(chosen).read_bytes(), encoding
            except OSError:
                continue
    return None


# A path convertor of the plain kind takes no slash, so that no name leads out of the folder.
ROUTES = [
    Route("/", page, include_in_schema=False),
    Route("/assets/{name}", asset, include_in_schema=False),
]
