"""Metrics: plain numbers in, Prometheus' text out."""

from prometheus_client.parser import text_string_to_metric_families

from chordmq.metrics import Histogram, Metric, Metrics, counter, gauge, histogram


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return what Prometheus would read."""
    text = metrics.text(metrics.read()).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_are_read_when_they_are_asked_for() -> None:
    """C15: a counter on the hot path is a plain integer; only a scrape reads it."""
    count = 0
    metrics = Metrics()
    metrics.add(lambda: [counter("requests", "Requests.", count), gauge("open", "Open.", -count)])
    count = 7
    read = samples(metrics)
    assert read["requests_total", ()] == 7
    assert read["open", ()] == -7


def test_labels_survive_any_text() -> None:
    topics = ["plain", 'quo"te', "back\\slash", "new\nline"]
    metrics = Metrics()
    rows = [({"topic": topic, "kind": "x"}, index) for index, topic in enumerate(topics)]
    metrics.add(lambda: [Metric("size", "Size.", "gauge", rows)])
    read = samples(metrics)
    for index, topic in enumerate(topics):
        assert read["size", (("kind", "x"), ("topic", topic))] == index


def test_a_histogram_counts_each_value_up_to_its_bound() -> None:
    spread = Histogram(bounds=(1, 10))
    for value in (0.5, 1, 2, 10, 99):
        spread.observe(value)
    metrics = Metrics()
    metrics.add(lambda: [histogram("wait_seconds", "Wait.", spread)])
    read = samples(metrics)
    assert read["wait_seconds_bucket", (("le", "1.0"),)] == 2
    assert read["wait_seconds_bucket", (("le", "10.0"),)] == 4
    assert read["wait_seconds_bucket", (("le", "+Inf"),)] == 5
    assert read["wait_seconds_count", ()] == 5
    assert read["wait_seconds_sum", ()] == 112.5
