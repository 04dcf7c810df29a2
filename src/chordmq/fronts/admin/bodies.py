"""Reads what a request brings."""

import json
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from chordmq.errors import InvalidRequest

BODY_SIZE_MAX = 64 * 1024


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request."""
    if request.method == "POST" and not _is_json(request):
        # A page of another site can make a browser post plain forms in the user's name, not JSON.
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_SIZE_MAX:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"over {BODY_SIZE_MAX} bytes")
    try:
        value = json.loads(body)
    except ValueError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body is not a JSON object")
    return value


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == "application/json"
