"""The real Helm takes the chart, and makes of it what our own renderer makes."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import CASES, render
from tests.interop.program import ROOT

HELM = "helm.sh/helm/v3/cmd/helm@v3.16.4"
CHART = ROOT / "charts" / "chordmq"
BUILD_TIMEOUT_S = 1500

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def helm() -> str:
    """Give Helm: that of the machine, or one built from its published sources."""
    found = shutil.which("helm")
    if found is not None:
        return found
    built = ROOT / ".cache" / "interop" / "helm" / "helm"
    if not built.exists():
        environment = {**os.environ, "GOBIN": str(built.parent), "CGO_ENABLED": "0"}
        go = shutil.which("go")
        assert go, "Helm is missing, and so is a Go that could build it: install one of them"
        command = [go, "install", "-ldflags=-s -w", HELM]
        subprocess.run(command, env=environment, check=True, timeout=BUILD_TIMEOUT_S)
    return str(built)


def test_the_chart_has_no_finding(helm: str) -> None:
    """B8: helm lint, with everything switched on."""
    values = {"pipeline": {"enabled": True}, "gateways": {"enabled": True}, "serviceMonitor": True}
    command = [helm, "lint", "--strict", str(CHART), "--values", "-"]
    linted = subprocess.run(
        command, input=yaml.safe_dump(values), capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize("values", CASES)
def test_helm_makes_the_objects_that_the_other_tests_look_at(
    helm: str, values: dict[str, Any], tmp_path: Path
) -> None:
    """B8: helm template; so what holds of our renderer's objects holds of Helm's."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command = [helm, "template", "demo", str(CHART), "--values", str(file)]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert by_name(list(yaml.safe_load_all(made))) == by_name(render(CHART, values))


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in objects if one}
