"""Routes whose handlers say by their annotations what they take and what they answer."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, get_type_hints

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from chordmq.broker.security.quotas import Limit
from chordmq.errors import Elsewhere
from chordmq.fronts.admin.call import JSON, Call
from chordmq.fronts.admin.forwarding import carried
from chordmq.fronts.admin.sending import Paced

Handler = Callable[..., Awaitable[Any]]


class Api(Route):
    """One route.

    The handler gets the call; `query` and `body`, if it has parameters of these names, are read
    and checked by their types. What it returns is the answer's JSON; None answers 204.
    """

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        status: HTTPStatus = HTTPStatus.OK,
        takes: Mapping[str, Any] | None = None,
        answers: Mapping[HTTPStatus, Mapping[str, Any]] | None = None,
    ) -> None:
        hints = get_type_hints(handler)
        self.handler = handler
        self.status = status
        self.query: type | None = hints.get("query")
        self.body: Any = hints.get("body")
        self.takes = takes if takes is not None else {JSON: self.body} if self.body else {}
        """The type of the body by media type."""
        self.answers = answers or _answers(status, hints["return"])
        """The type of the answer by status and media type."""
        super().__init__(path, self._serve, methods=[method], name=handler.__name__)

    async def _serve(self, request: Request) -> Response:
        call = Call(request)
        try:
            response = await self._answer_or_carry(call)
        except ClientDisconnect:
            call.release()
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it
        except BaseException:
            call.release()
            raise
        if isinstance(response, Paced):
            response.on_sent = call.release
        else:
            call.release()
        return response

    async def _answer_or_carry(self, call: Call) -> Response:
        """Answer, or have the node asked that can; what is not JSON the client has to get there."""
        try:
            return await self._measured(call) if call.meter.is_on else await self._answer(call)
        except Elsewhere as elsewhere:
            kinds = {kind for answer in self.answers.values() for kind in answer}
            if kinds - {JSON} or elsewhere.node < 0:
                raise
            response = await carried(call, elsewhere.node)
            if response is None:
                raise
            return response

    async def _measured(self, call: Call) -> Response:
        """Refuse a client that has yet to wait; charge others for what the request takes."""
        call.meter.refuse_debtor(Limit.REQUEST)
        response = await call.meter.working(self._answer(call))
        if call.is_delivery:
            call.meter.fetched += len(response.body)
        call.meter.wait_s()  # felt with the next request
        return response

    async def _answer(self, call: Call) -> Response:
        arguments: dict[str, Any] = {}
        if self.query is not None:
            arguments["query"] = call.query(self.query)
        if self.body is not None:
            arguments["body"] = await call.body(self.body)
        answer = await self.handler(call, **arguments)
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        return as_json(answer, self.status)


def as_json(answer: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return an answer in JSON."""
    return Paced(msgspec.json.encode(answer), status, media_type=JSON)


def _answers(status: HTTPStatus, kind: Any) -> dict[HTTPStatus, dict[str, Any]]:
    if kind is type(None):
        return {HTTPStatus.NO_CONTENT: {}}
    return {status: {JSON: kind}}
