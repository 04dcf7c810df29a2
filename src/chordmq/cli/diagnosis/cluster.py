"""Checks of a cluster: its etcd, the clocks and versions of its nodes, and its replicas."""

import json
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from chordmq.cli.diagnosis.finding import FAIL, OK, WARN, Finding, Place
from chordmq.cli.diagnosis.machine import CLOCK_SKEW_S_MAX
from chordmq.cli.diagnosis.network import CONNECT_TIMEOUT_S
from chordmq.cli.http import open_url
from chordmq.cli.identity import connection

if TYPE_CHECKING:
    import ssl
    from email.message import Message

ETCD_SLOW_S = 0.1
TOPICS_MAX = 500
"""Topics whose settings are looked at."""


def etcd(place: Place) -> Iterator[Finding]:
    """Check that each member of etcd answers, soon, and at the same time as our clock."""
    settings = place.config.cluster
    if not settings.is_on:
        return
    try:
        context = settings.context()
    except OSError as error:
        fix = "mend cluster.ca, cluster.certificate or cluster.key"
        yield Finding("etcd", FAIL, f"its certificates cannot be used: {error}", fix)
        return
    for member in settings.places:
        yield from _etcd_member(member, context)


def _etcd_member(member: str, context: "ssl.SSLContext | None") -> Iterator[Finding]:
    began_s = time.monotonic()
    request = urllib.request.Request(f"{member}/health")  # noqa: S310 (checked: http or https)
    try:
        with urllib.request.urlopen(  # noqa: S310
            request, timeout=CONNECT_TIMEOUT_S, context=context
        ) as answer:
            headers = answer.headers
    except (OSError, ValueError) as error:
        fix = "start etcd, or name its members in cluster.endpoints"
        yield Finding("etcd", FAIL, f"{member} does not answer: {error}", fix)
        return
    taken_s = time.monotonic() - began_s
    if taken_s > ETCD_SLOW_S:
        fix = "give etcd a disk of its own, near the nodes"
        yield Finding("etcd", WARN, f"{member} took {taken_s * 1000:.0f} ms", fix)
    else:
        yield Finding("etcd", OK, f"{member} answers in {taken_s * 1000:.0f} ms")
    yield from _clock_of(member, headers)


def _clock_of(whose: str, headers: "Message") -> Iterator[Finding]:
    """Compare another machine's clock, by the second, with ours."""
    if "Date" not in headers:
        return
    theirs = parsedate_to_datetime(headers["Date"])
    skew_s = (theirs - datetime.now(tz=UTC)).total_seconds()
    if abs(skew_s) > CLOCK_SKEW_S_MAX:
        fix = "run a time service on every machine: timedatectl set-ntp true"
        yield Finding("clock", FAIL, f"{whose} is {skew_s:+.0f} s away from this machine", fix)


def nodes(place: Place) -> Iterator[Finding]:
    """Check that the nodes of a running cluster live, agree on the time, and are of one version."""
    try:
        _, found = _told(place.url)
    except (OSError, ValueError):
        return  # `ports` says that no node answers there
    versions: dict[str, list[str]] = {}
    for row in found["nodes"]:
        if not row["live"]:
            fix = "start it again, or remove it: kafka-cluster unregister"
            yield Finding("nodes", WARN, f"node {row['id']} is gone", fix)
            continue
        url = row["http"] or place.url
        try:
            headers, own = _told(url if "://" in url else f"http://{url}")
        except (OSError, ValueError) as error:
            yield Finding("nodes", WARN, f"node {row['id']}: {error}", "look at its log")
            continue
        yield from _clock_of(f"node {row['id']}", headers)
        (version,) = [one["version"] for one in own["nodes"] if one["id"] == row["id"]]
        versions.setdefault(version, []).append(str(row["id"]))
    shown = "; ".join(f"{version} on {', '.join(ids)}" for version, ids in versions.items())
    if len(versions) > 1:
        yield Finding("versions", WARN, shown, "finish the upgrade: restart the older nodes")
    elif versions:
        yield Finding("versions", OK, shown)


def _told(url: str) -> "tuple[Message, dict[str, Any]]":
    """Return what a node says of its cluster, or raise OSError or ValueError."""
    headers, body = open_url(url, "/v1/cluster", CONNECT_TIMEOUT_S)
    return headers, dict(json.loads(body))


def replicas(place: Place) -> Iterator[Finding]:
    """Check that new topics can be written to, and survive the loss of a node."""
    broker = place.config.broker
    copies, demanded = broker.default_replication_factor, broker.topic.min_insync_replicas
    if not place.config.cluster.is_on:
        return
    if 0 < copies < demanded:
        fix = "raise broker.default.replication.factor, or lower broker.min.insync.replicas"
        detail = f"new topics have {copies} replicas, and acks=all waits for {demanded}"
        yield Finding("replicas", FAIL, detail, fix)
    elif broker.auto_create_topics_enable and copies == 1:
        fix = "--set broker.default.replication.factor=3, or broker.auto.create.topics.enable=false"
        detail = "topics that clients create by naming them have one replica"
        yield Finding("replicas", WARN, detail, fix)
    else:
        yield Finding("replicas", OK, f"{copies} for new topics, {demanded} demanded by acks=all")


def topics(place: Place) -> Iterator[Finding]:
    """Check that the topics of a running cluster have as many replicas as acks=all waits for."""
    import uvloop

    from chordmq.client.admin import Admin
    from chordmq.client.errors import ClientError

    async def ask() -> list[str]:
        found = []
        async with Admin(place.bootstrap, connection(CONNECT_TIMEOUT_S)) as admin:
            if len(admin.cluster.nodes) < 2:
                return []
            for info in (await admin.topics())[:TOPICS_MAX]:
                settings = {row.name: row.value for row in await admin.settings(info.name)}
                demanded = int(settings.get("min.insync.replicas") or 1)
                if any(len(part.replicas) < demanded for part in info.partitions):
                    found.append(info.name)
        return found

    try:
        short = uvloop.run(ask())
    except (ClientError, ValueError):
        return  # `advertised` says so
    if short:
        fix = "chordmq topics alter TOPIC --set min.insync.replicas=1, or give it more replicas"
        detail = f"nobody can write with acks=all to {', '.join(short[:5])}"
        yield Finding("topics", FAIL, detail, fix)
