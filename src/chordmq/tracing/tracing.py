"""Spans of requests, publications and messages, told to an OpenTelemetry collector.

Nothing of this is loaded, called or asked about where tracing is off. A publication that reaches
the log while a request is being answered ends with that request; any other ends at once.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from chordmq.errors import ChordMQError
from chordmq.metrics import Exemplar, ExemplaryHistogram, Metric
from chordmq.records.record import Headers
from chordmq.tracing.parents import TRACEPARENT, parent_of, parents_in
from chordmq.tracing.settings import TracingSettings
from chordmq.version import VERSION

EXPORT_INTERVAL_MS = 1_000
EXPORT_TIMEOUT_S = 5
INTERNAL_PREFIX = "__"
SYSTEM = {"messaging.system": "chordmq"}

Intercept = Callable[[str, memoryview], memoryview]

_propagator = TraceContextTextMapPropagator()


@dataclass(slots=True)
class Request:
    """A request under way: its span, and those of what it has published."""

    front: str
    operation: str
    span: Span
    began_s: float
    publications: list[Span] = field(default_factory=list)


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
        """End a request's span, those of its publications, and count how long it took."""
        if fault is not None:
            request.span.set_status(Status(StatusCode.ERROR, str(fault)))
        for span in (*request.publications, request.span):
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
        request = _request.get()
        attributes = {**SYSTEM, "messaging.operation.type": "send"}
        attributes["messaging.destination.name"] = topic
        links = [Link(request.span.get_span_context())] if request and parents else []
        for parent in parents or [""]:
            span = self._tracer.start_span(
                f"publish {topic}",
                context=_context(parent),
                kind=SpanKind.CONSUMER,
                attributes=attributes,
                links=links,
            )
            if request is None:
                span.end()
            else:
                request.publications.append(span)

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


def _context(parent: str | None) -> context.Context | None:
    """Return the context that a traceparent means; one that is malformed means a new trace."""
    return _propagator.extract({TRACEPARENT: parent}) if parent else None
