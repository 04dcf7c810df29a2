"""Calls to the nodes of another cluster over HTTP, whichever of them answers."""

import ssl
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec

from chordmq.dataclass import dataclass
from chordmq.topology.http import Answer, HttpClient, Unreachable

ANSWER_S = 15.0
REDIRECTS_MAX = 3


class Refused(Exception):
    """A source answered, but not with what it was asked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """Another cluster: what the registry calls it, and the addresses of its nodes."""

    name: str
    url: str
    """One address, or those of several nodes with commas."""

    @property
    def urls(self) -> list[str]:
        """Return the addresses, of which any will do to begin with."""
        return [one.strip().rstrip("/") for one in self.url.split(",") if one.strip()]


class Caller:
    """Asks whichever node of a cluster answers, and goes where that one points to."""

    def __init__(self, source: Source, token: str, context: ssl.SSLContext | None) -> None:
        self.source = source
        self._token, self._context = token, context
        self._turn = 0
        self._client = HttpClient(source.urls[0], token, context)

    async def ask(
        self, method: str, path: str, *, timeout_s: float, body: bytes = b"", media: str = ""
    ) -> Answer:
        """Return the answer, or raise Unreachable or Refused; the next node is asked then."""
        headers = {"content-type": media} if media else None
        said = ""
        try:
            for _ in range(1 + REDIRECTS_MAX):
                answer = await self._client.ask(
                    method, path, timeout_s=timeout_s, headers=headers, body=body
                )
                if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    return answer
                said = f"{answer.status}: {answer.body.decode(errors='replace')[:200]}"
                if answer.status != HTTPStatus.TEMPORARY_REDIRECT:
                    break
                parts = urlsplit(answer.headers.get("location", ""))
                self._move(f"{parts.scheme}://{parts.netloc}")
        except Unreachable:
            self._elsewhere()
            raise
        self._elsewhere()
        raise Refused(f"{path}: {said}")

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def _elsewhere(self) -> None:
        """Begin with the next of the nodes that are known."""
        self._turn += 1
        self._move(self.source.urls[self._turn % len(self.source.urls)])

    def _move(self, url: str) -> None:
        """Talk to another node from now on."""
        if url != self._client.url:
            self._client.close()
            self._client = HttpClient(url, self._token, self._context)


async def asked(caller: Caller, path: str) -> dict[str, Any]:
    """Return the JSON that is found at a place."""
    return _read(await caller.ask("GET", path, timeout_s=ANSWER_S), path)


async def posted(
    caller: Caller,
    path: str,
    body: bytes,
    media: str = "",
    *,
    method: str = "POST",
    timeout_s: float = ANSWER_S,
) -> dict[str, Any]:
    """Send something, JSON unless told otherwise, and return the JSON that is answered."""
    answer = await caller.ask(method, path, timeout_s=timeout_s, body=body, media=media)
    return _read(answer, path)


def _read(answer: Answer, path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer.body or b"{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Refused(f"{path}: no JSON: {error}") from None
