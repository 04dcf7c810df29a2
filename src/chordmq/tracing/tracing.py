"""Spans of requests, publications and deliveries, told to an OpenTelemetry collector.

Nothing of this is loaded or called where tracing is off. What reaches the log, or leaves it, while
a request is being answered ends with that request; anything else ends at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Any, TypeVar

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError
from chordmq.metrics import Exemplar, ExemplaryHistogram, Metric
from chordmq.records.record import Headers, Record
from chordmq.tracing.parents import (
    TRACEPARENT,
    parent_of,
    parents_in,
    parents_in_all,
    parents_of,
)
from chordmq.tracing.settings import TracingSettings
from chordmq.version import VERSION

EXPORT_INTERVAL_MS = 1_000
EXPORT_TIMEOUT_S = 5
INTERNAL_PREFIX = "__"
SYSTEM = {"messaging.system": "chordmq"}

Intercept = Callable[[str, memoryview], memoryview]
Deliver = Callable[[str, int, list[Record]], list[Record]]
Answer = TypeVar("Answer")

_propagator = TraceContextTextMapPropagator()


@dataclass(slots=True)
class Request:
    """A request under way: its span, and those of what it has published or is handed."""

    front: str
    operation: str
    span: Span
    began_s: float
    messages: list[Span] = field(default_factory=list)


_request: ContextVar[Request | None] = ContextVar("request", default=None)


class Tracing:
    """Records spans, and how long the requests took that had one."""

    def __init__(self, settings: TracingSettings) -> None:
        exporter = OTLPSpanExporter(
            endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_TIMEOUT_S
        )
        about = {"service.name": settings.service, "service.version": VERSION}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample)),
            resource=Resource.create(about),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=EXPORT_INTERVAL_MS)
        )
        self._tracer = self._provider.get_tracer("chordmq", VERSION)
        self._durations: dict[tuple[str, str], ExemplaryHistogram] = {}

    async def close(self) -> None:
        """Tell what is left, within the time that one report may take."""
        await asyncio.to_thread(self._provider.force_flush, EXPORT_TIMEOUT_S * 1000)
        await asyncio.to_thread(self._provider.shutdown)

    def begin(
        self,
        front: str,
        operation: str,
        now_s: float,
        parent: str | None = None,
        **attributes: Any,
    ) -> Request:
        """Begin the span of a request; `now_s` and that of `end` are of one clock."""
        span = self._tracer.start_span(
            operation,
            context=_context(parent),
            kind=SpanKind.SERVER,
            attributes={**SYSTEM, "chordmq.front": front, **attributes},
        )
        return Request(front, operation, span, now_s)

    @contextmanager
    def current(self, request: Request) -> Iterator[None]:
        """Have what is published inside the block belong to the request."""
        token = _request.set(request)
        try:
            with trace.use_span(request.span):
                yield
        finally:
            _request.reset(token)

    def end(self, request: Request, now_s: float, fault: BaseException | None = None) -> None:
        """End a request's span, those of its messages, and count how long it took."""
        if fault is not None:
            request.span.set_status(Status(StatusCode.ERROR, str(fault)))
        for span in (*request.messages, request.span):
            span.end()
        key = request.front, request.operation
        if key not in self._durations:
            self._durations[key] = ExemplaryHistogram()
        took_s, about = now_s - request.began_s, request.span.get_span_context()
        exemplar = None
        if about.trace_flags.sampled:
            exemplar = Exemplar(trace.format_trace_id(about.trace_id), took_s)
        self._durations[key].observe_example(took_s, exemplar)

    def publishing(self, intercept: Intercept | None) -> Intercept:
        """Return what sees every batch before it is stored, after `intercept` has."""

        def see(topic: str, data: memoryview) -> memoryview:
            if intercept is not None:
                data = intercept(topic, data)
            if not topic.startswith(INTERNAL_PREFIX):
                self._publish(topic, data)
            return data

        return see

    def _publish(self, topic: str, data: memoryview) -> None:
        try:
            parents = parents_in(data)
        except ChordMQError:
            return  # refused by the log, which says why
        self._tell("publish", topic, parents or [""], _request.get())

    def copied(self, topic: str, records: memoryview) -> None:
        """Take note of batches that have come here from the leader of their partition."""
        if not topic.startswith(INTERNAL_PREFIX):
            self._tell("replicate", topic, _parents([records]) or [""])

    def delivering(self, deliver: Deliver | None) -> Deliver:
        """Return what sees records before they are handed out, after `deliver` has."""

        def see(topic: str, partition: int, records: list[Record]) -> list[Record]:
            if deliver is not None:
                records = deliver(topic, partition, records)
            if not topic.startswith(INTERNAL_PREFIX):
                self._tell("deliver", topic, parents_of(records))
            return records

        return see

    def handing_out(self, request: Request, topic: str, batches: Sequence[memoryview]) -> None:
        """Take note of batches that a request is answered with, as they are stored.

        They may have to be decompressed, so that only requests look that are recorded themselves.
        """
        if request.span.is_recording() and not topic.startswith(INTERNAL_PREFIX):
            self._tell("deliver", topic, _parents(batches), request)

    def _tell(
        self, operation: str, topic: str, parents: Iterable[str], request: Request | None = None
    ) -> None:
        """Have a span of something done to messages in each trace, "" being none yet."""
        about = {
            **SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": "send" if operation == "publish" else "receive",
            "messaging.destination.name": topic,
        }
        for parent in parents:
            links = [Link(request.span.get_span_context())] if request and parent else []
            span = self._tracer.start_span(
                f"{operation} {topic}",
                context=_context(parent),
                kind=SpanKind.CONSUMER if operation != "deliver" else SpanKind.PRODUCER,
                attributes=about,
                links=links,
            )
            if request is None:
                span.end()
            else:
                request.messages.append(span)

    @contextmanager
    def asking(self, operation: str, broker: int) -> Iterator[str]:
        """Have the span of a request to another node around a block; give its traceparent."""
        with self._tracer.start_as_current_span(
            f"ask {operation}", kind=SpanKind.CLIENT, attributes=_peer(operation, broker)
        ):
            carrier: dict[str, str] = {}
            _propagator.inject(carrier)
            yield carrier[TRACEPARENT]

    async def serving(
        self, operation: str, broker: int, parent: str, work: Awaitable[Answer]
    ) -> Answer:
        """Have the span of another node's request around what answers it."""
        with self._tracer.start_as_current_span(
            f"serve {operation}",
            context=_context(parent),
            kind=SpanKind.SERVER,
            attributes=_peer(operation, broker),
        ):
            return await work

    @contextmanager
    def processing(self, topic: str, headers: Headers) -> Iterator[None]:
        """Have the span of one message's processing around a block; a failure marks it."""
        with self._tracer.start_as_current_span(
            f"process {topic}",
            context=_context(parent_of(headers)),
            kind=SpanKind.CONSUMER,
            attributes={
                **SYSTEM,
                "messaging.operation.type": "process",
                "messaging.destination.name": topic,
            },
        ):
            yield

    def measures(self) -> Iterator[Metric]:
        """Yield how long traced requests took, each range with a trace to look at."""
        yield Metric(
            "chordmq_request_seconds", "How long requests took; only while tracing is on.",
            "histogram",
            [
                ({"front": front, "operation": operation}, histogram)
                for (front, operation), histogram in self._durations.items()
            ],
        )  # fmt: skip


def _parents(batches: Iterable[memoryview]) -> list[str]:
    """Return the traces of stored batches; none if one cannot be read, as its reader will see."""
    try:
        return parents_in_all(batches)
    except ChordMQError:
        return []


def _peer(operation: str, broker: int) -> dict[str, str | int]:
    return {"rpc.system": "chordmq", "rpc.method": operation, "chordmq.peer": broker}


def _context(parent: str | None) -> context.Context | None:
    """Return the context that a traceparent means; one that is malformed means a new trace."""
    return _propagator.extract({TRACEPARENT: parent}) if parent else None
