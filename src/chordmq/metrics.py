"""Counters, gauges and histograms as plain numbers, and the text form that Prometheus reads.

Hot paths add to plain integers that they own. Whoever owns numbers offers a source: a function that
is called only when somebody asks for the metrics, and reads them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from chordmq.dataclass import dataclass

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPEN_MEDIA = "application/openmetrics-text"
OPEN_CONTENT_TYPE = f"{OPEN_MEDIA}; version=1.0.0; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Labels = Mapping[str, str]


class Histogram:
    """How often a value fell into each of a few ranges; `bounds` are their upper ends."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One value of a range, and the trace that tells more of it."""

    trace_id: str
    value: float


class ExemplaryHistogram(Histogram):
    """A histogram that keeps the newest example of each range."""

    __slots__ = ("examples",)

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        super().__init__(bounds)
        self.examples: dict[int, Exemplar] = {}

    def observe_example(self, value: float, example: Exemplar | None) -> None:
        """Count one value, and remember where to look it up."""
        self.observe(value)
        if example is not None:
            self.examples[bisect_left(self.bounds, value)] = example


@dataclass(frozen=True, slots=True)
class Metric:
    """The numbers of one name, each with its labels; all have the same label names."""

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    samples: Sequence[tuple[Labels, float | Histogram]]


Source = Callable[[], Iterable[Metric]]


def counter(name: str, text: str, value: float) -> Metric:
    """Return a number that only grows."""
    return Metric(name, text, "counter", [({}, value)])


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a number that goes up and down."""
    return Metric(name, text, "gauge", [({}, value)])


def histogram(name: str, text: str, value: Histogram) -> Metric:
    """Return how values spread."""
    return Metric(name, text, "histogram", [({}, value)])


class Metrics:
    """The sources of one node."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        """Include the numbers of a source from now on."""
        self._sources.append(source)

    def read(self) -> list[Metric]:
        """Read every source."""
        return [metric for source in self._sources for metric in source()]

    def text(self, metrics: Iterable[Metric], *, is_open: bool = False) -> bytes:
        """Return metrics, and those of the process, as Prometheus reads them.

        The form of OpenMetrics, which is meant by `is_open`, has room for examples.
        """
        # Imported when first asked for: it takes longer to load than the node to start.
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
        from prometheus_client.openmetrics.exposition import generate_latest as generate_open

        registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        registry.register(_Collected(metrics))
        if is_open:
            return bytes(generate_open(registry))  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class _Collected:
    """Metrics in the form that prometheus-client collects."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> "Iterator[Family]":
        return map(family, self._metrics)


def family(metric: Metric) -> "Family":
    """Return one metric as prometheus-client's metric family."""
    from prometheus_client.core import Exemplar as Example
    from prometheus_client.core import Metric as Family

    result = Family(metric.name, metric.help, metric.kind)
    for labels, value in metric.samples:
        if not isinstance(value, Histogram):
            suffix = "_total" if metric.kind == "counter" else ""
            result.add_sample(metric.name + suffix, dict(labels), value)
            continue
        ends = [*(str(float(bound)) for bound in value.bounds), "+Inf"]
        examples = value.examples if isinstance(value, ExemplaryHistogram) else {}
        for at, (end, count) in enumerate(zip(ends, accumulate(value.counts), strict=True)):
            example = examples.get(at)
            shown = Example({"trace_id": example.trace_id}, example.value) if example else None
            result.add_sample(f"{metric.name}_bucket", {**labels, "le": end}, count, exemplar=shown)
        result.add_sample(f"{metric.name}_count", dict(labels), sum(value.counts))
        result.add_sample(f"{metric.name}_sum", dict(labels), value.sum)
    return result
