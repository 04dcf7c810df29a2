"""What deploys ChordMQ elsewhere: images, Compose, the chart, systemd, alerts and dashboards."""

import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from chordmq.cli.diagnosis.finding import Place
from chordmq.cli.diagnosis.network import told_addresses
from chordmq.config import Config, known, load, variable
from chordmq.iot.queries import COUNTERS, GAUGES
from tests.cluster.running_cluster import RunningCluster
from tests.deploy.chart import CASES, render
from tests.running_node import RunningNode
from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
CHART = ROOT / "charts" / "chordmq"
_METRIC = re.compile(r"\b(?:chordmq|process)_[a-z_]+\b")


def settle(environment: dict[str, Any]) -> Config:
    """Have the node read settings as a container gives them, each of which it has to know."""
    assert set(environment) <= {variable(name) for name in known()}
    texts = {name: re.sub(r"\$\{\w+:-(\w*)\}", r"\1", str(v)) for name, v in environment.items()}
    return load(None, environment={**texts, "CHORDMQ_INSECURE": "true"}, assignments=[])


def test_the_images_recipe_has_no_finding() -> None:
    """B8, E15: hadolint reads it as the best practices want it."""
    linter = Path(sys.executable).parent / "hadolint"
    command = [str(linter), "--failure-threshold", "info", str(DEPLOY / "Dockerfile")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_image_copies_only_what_is_there() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.M)
    assert copied
    for source in " ".join(copied).split():
        assert (ROOT / source).exists(), source


def test_compose_starts_nodes_with_settings_that_exist() -> None:
    """B8: every variable of every service is a setting of the node."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    assert {profile for one in services.values() for profile in one["profiles"]} == {
        "single",
        "cluster",
        "iot",
    }
    nodes = [one for one in services.values() if one.get("image") == "chordmq"]
    assert len(nodes) == 4
    for config in [settle(node["environment"]) for node in nodes]:
        if config.cluster.is_on:
            place = Place(config=config, bootstrap="", url="")
            assert list(told_addresses(place)) == [], "a node tells others an address of their own"
    for profile in ("single", "cluster", "iot"):
        served = [one for one in services.values() if profile in one["profiles"]]
        ports = [port.split(":")[0] for one in served for port in one.get("ports", [])]
        assert ports, "nobody outside could see it"
        assert len(ports) == len({*ports})
    named = {volume.split(":")[0] for one in services.values() for volume in one.get("volumes", [])}
    assert named <= set(compose["volumes"])


@pytest.mark.parametrize("values", CASES)
def test_the_chart_makes_objects_whose_parts_fit(values: dict[str, Any]) -> None:
    """B8, E15: selectors find their pods, ports their names, settings exist."""
    objects = render(CHART, values)
    kinds = [one["kind"] for one in objects]
    assert {"Service", "StatefulSet", "PodDisruptionBudget"} <= set(kinds)
    sets = {one["metadata"]["name"]: one for one in objects if one["kind"] == "StatefulSet"}
    for one in sets.values():
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()
    node = sets["demo"]["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"] for port in node["ports"]}
    for one in objects:
        if one["kind"] == "Service":
            assert {port["name"] for port in one["spec"]["ports"]} <= ports
    assert {node[f"{kind}Probe"]["httpGet"]["port"] for kind in ("readiness", "liveness")} <= ports
    assert ("replicas" in sets["demo"]["spec"]) != ("HorizontalPodAutoscaler" in kinds)
    assert kinds.count("ServiceMonitor") == int(bool(values.get("serviceMonitor")))
    on_operator = values.get("pipeline", {}).get("sparkApplication")
    assert ("demo-pipeline" in sets) == (bool(values.get("pipeline")) and not on_operator)
    assert kinds.count("SparkApplication") == int(bool(on_operator))


@pytest.mark.parametrize("values", CASES)
def test_the_nodes_of_the_chart_have_tls_at_every_door_or_at_none(values: dict[str, Any]) -> None:
    """B8, C8: with a secret nothing listens beyond the pod that anybody could listen to."""
    (node,) = (
        one["spec"]["template"]["spec"]["containers"][0]
        for one in render(CHART, values)
        if one["kind"] == "StatefulSet" and one["metadata"]["name"] == "demo"
    )
    config = settle({row["name"]: row["value"] for row in node["env"]})
    wanted = bool(values.get("tlsSecret"))
    for front in ("kafka", "http", "framed", "amqp", "mqtt", "peer"):
        assert getattr(config, front).host == "0.0.0.0"
        assert getattr(config, front).tls.is_on == wanted, front
    assert config.mqtt.plain != wanted
    assert (node["readinessProbe"]["httpGet"].get("scheme") == "HTTPS") == wanted
    for front in ("provider", "capnp", "grpc"):
        assert getattr(config, front).host == "127.0.0.1"


def test_the_unit_of_systemd_is_sound() -> None:
    unit = DEPLOY / "systemd" / "chordmq.service"
    command = ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_prometheus_takes_the_alert_rules() -> None:
    """D15: promtool finds nothing wrong with them."""
    rules = DEPLOY / "prometheus" / "rules.yaml"
    result = subprocess.run(
        ["promtool", "check", "rules", rules], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def measured(node: RunningNode) -> set[str]:
    """Return the metrics that a node tells."""
    with urllib.request.urlopen(f"{node.http}/metrics") as answer:
        return set(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.M))


def asked() -> set[str]:
    """Return the metrics that the rules and the dashboards ask for."""
    found = set(_METRIC.findall((DEPLOY / "prometheus" / "rules.yaml").read_text()))
    for path in (DEPLOY / "grafana").glob("*.json"):
        board = json.loads(path.read_text())
        assert board["panels"], board["title"]
        for panel in board["panels"]:
            found |= set(_METRIC.findall(panel["targets"][0]["expr"]))
    return found


def test_rules_and_dashboards_speak_of_metrics_that_exist(node: RunningNode) -> None:
    """D15: none of them would show an empty panel, once somebody has come to the front."""
    elsewhere = {f"chordmq_pipeline_{name}" for name in GAUGES}
    elsewhere |= {f"chordmq_pipeline_{name}_total" for name in COUNTERS}
    # A node alone has none of a cluster.
    elsewhere |= set(_METRIC.findall((DEPLOY / "grafana" / "cluster.json").read_text()))
    with socket.create_connection(node.mqtt_address), socket.create_connection(node.amqp_address):
        wait_until(lambda: asked() <= measured(node) | elsewhere)


@pytest.mark.slow
def test_the_metrics_of_a_cluster_exist(tmp_path: Path) -> None:
    """D15: nor would the dashboard of the cluster."""
    with RunningCluster(tmp_path) as running:
        there = measured(running.nodes[1])
    assert {one for one in asked() - there if not one.startswith("chordmq_pipeline_")} == set()


def test_the_dashboards_are_those_that_the_script_writes() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "dashboards.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0
