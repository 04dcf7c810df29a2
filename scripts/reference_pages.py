"""Writes the pages of docs/ that are made from code: Kafka APIs, settings and metrics."""

import argparse
import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from chordmq.broker.groups.settings import group_settings
from chordmq.broker.setting import Setting, text_of
from chordmq.broker.settings import broker_settings, topic_settings
from chordmq.cdc.measures import Measures
from chordmq.clock import SystemClock
from chordmq.codecs.kafka.apis import APIS as CODECS
from chordmq.fronts.kafka.dispatch import APIS
from chordmq.iot.queries import COUNTERS, GAUGES

ROOT = Path(__file__).parent.parent
NOTE = "<!-- Made by scripts/reference_pages.py (`make docs`); do not edit. -->\n"

KAFKA = """# Kafka protocol

ChordMQ speaks the Kafka protocol at the level of Apache Kafka 4.3. Every version in the table
is real: it is encoded and decoded by a codec made from Kafka's own message schemas, and tested
against other implementations. Produce is announced from version 0, because librdkafka switches
compression off otherwise, and served from version 3, as in Kafka 4.

| key | API | versions | handler |
|---|---|---|---|
"""

KAFKA_MISSING = """
## Not served yet

These APIs are not announced, so clients do not call them; one that does is disconnected, as by
Kafka.

| key | API |
|---|---|
"""

KAFKA_LIMITS = """
## What to know

- Transactions are complete in both protocols. With the first, a request that meets the end of
  the transaction before it waits up to a second for that, before it is told
  CONCURRENT_TRANSACTIONS. Two-phase commit (KIP-939) is not there.
- SASL speaks SCRAM-SHA-512, SCRAM-SHA-256, PLAIN and OAUTHBEARER where `auth.mechanisms` offers
  them; see [security](../security.md). Before a login only ApiVersions, SaslHandshake and
  SaslAuthenticate are answered, and frames are small. Kerberos (GSSAPI) and delegation tokens are
  not there. With TLS 1.3, a client whose certificate is refused sees the connection end; the reason
  is in the node's log.
- Record formats older than 2 (Kafka before 0.11) are not stored. Kafka 4 does not take them
  either.
- An unsupported version of ApiVersions is answered with error 35 and the range; any other
  unsupported version, a malformed frame or a frame over the limit closes the connection it came
  on, and no other.
- `acks=0` is stored like everything else; a batch that is refused closes the connection, since
  there is no answer to put the error into.
- Fetch sessions (KIP-227) and share sessions (KIP-932) belong to their connection.
- Share groups: members are kept in memory and join again after a restart of the node; what they
  have settled is in the log ([cursors](../cursors.md)). Offsets of a share group are exact: the
  start moves as soon as all before it is settled.
"""

SETTINGS = """# Settings

Topic settings are given with `chordmq topics create --set`, `kafka-configs`, or any admin
client. The node's settings go into the YAML file under `broker:`, or on the command line as
`--set broker.num.partitions=3`. A name without effect is taken, so that scripts written for
Kafka run, and shown as such here.

## Topics

| setting | default | node's default for it | what it does |
|---|---|---|---|
"""

GROUP_SETTINGS = """
## Groups

Given with `kafka-configs --entity-type groups` or any admin client; a group need not exist yet.

| setting | default | what it does |
|---|---|---|
"""

NODE_SETTINGS = """
## Node

| setting | default | what it does |
|---|---|---|
"""


METRICS = """# Metrics

`GET /metrics` of a node tells these in Prometheus' form; `chordmq cdc` and the consumer application
tell those of their own, the data pipeline its own at port 9464. A metric that a node has no use for
(of a cluster, of a front that nobody uses) is not told. Alerts and dashboards made of them:
[deployment](deploy.md).

| metric | kind | what it says |
|---|---|---|
"""
METRIC_KINDS = ("counter", "gauge", "histogram")
METRIC_FRONTS = ("chordmq_capnp", "chordmq_grpc")
"""What fronts that share their code begin the names of their metrics with."""


def kafka_page() -> str:
    """Return the page on the Kafka protocol."""
    served = [
        f"| {key} | {api.name} | {_range(api.versions)} | `{api.place}` |"
        for key, api in sorted(APIS.items())
    ]
    missing = [f"| {key} | {codec.name} |" for key, codec in CODECS.items() if key not in APIS]
    return (
        NOTE + KAFKA + "\n".join(served) + "\n" + KAFKA_MISSING + "\n".join(missing) + "\n"
        + KAFKA_LIMITS
    )  # fmt: skip


def settings_page() -> str:
    """Return the page on settings."""
    topics = [
        f"| `{setting.name}` | {_default(setting)} | {_code(setting.node_name)} "
        f"| {_help(setting)} |"
        for setting in topic_settings().values()
    ]
    groups, node = (
        [
            f"| `{setting.name}` | {_default(setting)} | {_help(setting)} |"
            for setting in table.values()
        ]
        for table in (group_settings(), broker_settings())
    )
    return (
        NOTE + SETTINGS + "\n".join(topics) + "\n" + GROUP_SETTINGS + "\n".join(groups) + "\n"
        + NODE_SETTINGS + "\n".join(node) + "\n"
    )  # fmt: skip


def _range(versions: range) -> str:
    last = versions.stop - 1
    return str(last) if versions.start == last else f"{versions.start}-{last}"


def _default(setting: Setting) -> str:
    return _code(text_of(setting.default)) or "(empty)"


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _help(setting: Setting) -> str:
    return setting.help if setting.has_effect else f"(no effect) {setting.help}"


class Told(NamedTuple):
    """A metric as Prometheus sees it."""

    name: str
    kind: str
    text: str


def metrics_page() -> str:
    """Return the page."""
    rows = sorted({*_pipeline(), *_change_data_capture(), *_in_code()})
    return NOTE + METRICS + "".join(f"| `{row.name}` | {row.kind} | {row.text} |\n" for row in rows)


def _pipeline() -> Iterator[Told]:
    """Yield those of the queries, which are named by tables."""
    for kind, texts in (("gauge", GAUGES), ("counter", COUNTERS)):
        for name, text in texts.items():
            yield _told(f"chordmq_pipeline_{name}", kind, text)


def _change_data_capture() -> Iterator[Told]:
    """Yield those of a followed database, which are named by tables as well."""
    for metric in Measures("source", SystemClock()).read():
        yield _told(metric.name, metric.kind, metric.help)


def _in_code() -> Iterator[Told]:
    """Yield what calls of `counter`, `gauge`, `histogram` and `Metric` name."""
    for path in sorted((ROOT / "src" / "chordmq").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield from _of_call(node.func.id, node.args)


def _of_call(function: str, arguments: list[ast.expr]) -> Iterator[Told]:
    if function not in (*METRIC_KINDS, "Metric") or len(arguments) < len(METRIC_KINDS):
        return
    text, third = (one.value if isinstance(one, ast.Constant) else "" for one in arguments[1:3])
    for name in _names(arguments[0]):
        yield _told(name, str(third) if function == "Metric" else function, str(text))


def _names(expression: ast.expr) -> Iterator[str]:
    """Yield what a metric is called; nothing if tables say so."""
    if isinstance(expression, ast.Constant):
        yield str(expression.value)
    elif isinstance(expression, ast.JoinedStr):
        prefix, *rest = expression.values
        if isinstance(prefix, ast.FormattedValue) and ast.unparse(prefix.value) == "prefix":
            end = "".join(str(one.value) for one in rest if isinstance(one, ast.Constant))
            yield from (f"{front}{end}" for front in METRIC_FRONTS)


def _told(name: str, kind: str, text: str) -> Told:
    return Told(f"{name}_total" if kind == "counter" else name, kind, text)


PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs/protocols/kafka.md": kafka_page,
    ROOT / "docs/settings.md": settings_page,
    ROOT / "docs/metrics.md": metrics_page,
}


def main() -> int:
    """Write the pages, or only say whether they are as the code is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if a page is out of date")
    check = parser.parse_args().check
    stale = [path for path, page in PAGES.items() if _text(path) != page()]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'out of date, run make docs' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PAGES[path](), encoding="utf-8")
    return 1 if check and stale else 0


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
