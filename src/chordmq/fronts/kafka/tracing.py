"""Answers Produce, Fetch and ShareFetch with a span around each, for nodes that trace."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from chordmq.clock import Clock
from chordmq.codecs.kafka.header import RequestHeader
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.dispatch import Api, Buffers, Result, answer

if TYPE_CHECKING:
    from chordmq.tracing.tracing import Request, Tracing

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78

Answering = Callable[[Api, Call, memoryview, RequestHeader], Result]


def traced(tracing: "Tracing | None", clock: Clock) -> Answering | None:
    """Return what answers requests on a node that traces: each span ends with its answer."""
    if tracing is None:
        return None

    def answer_traced(api: Api, call: Call, frame: memoryview, header: RequestHeader) -> Result:
        if header.api_key not in (PRODUCE, FETCH, SHARE_FETCH):
            return answer(api, call, frame, header)
        about = {"client.address": call.client.host, "messaging.client.id": call.client_id}
        request = tracing.begin("kafka", api.name, clock.monotonic_s(), **about)

        if header.api_key != PRODUCE:
            call = replace(call, handed_out=partial(tracing.handing_out, request))

        def end(fault: BaseException | None = None) -> None:
            tracing.end(request, clock.monotonic_s(), fault)

        try:
            with tracing.current(request):
                result = answer(api, call, frame, header)
        except Exception as error:
            end(error)
            raise
        if isinstance(result, asyncio.Future):
            result.add_done_callback(lambda done: end(_fault(done)))
        elif isinstance(result, Coroutine):
            return _awaited(result, tracing, request, end)
        else:
            end()
        return result

    return answer_traced


def _fault(done: asyncio.Future[Buffers | None]) -> BaseException | None:
    return asyncio.CancelledError() if done.cancelled() else done.exception()


async def _awaited(
    work: Coroutine[None, None, Buffers | None],
    tracing: "Tracing",
    request: "Request",
    end: Callable[[BaseException | None], None],
) -> Buffers | None:
    try:
        with tracing.current(request):
            result = await work
    except BaseException as error:
        end(error)
        raise
    end(None)
    return result
