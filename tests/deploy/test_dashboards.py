"""Grafana's own description of a dashboard fits ours."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interop.program import ROOT, installed

PACKAGES = ROOT / "console" / "node_modules"
OPTIONS = [
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def faults(directory: Path, boards: dict[str, Any]) -> str:
    """Return what TypeScript says of dashboards by the types that Grafana publishes."""
    (directory / "node_modules").symlink_to(PACKAGES)
    for name, board in boards.items():
        (directory / f"{name}.ts").write_text(
            "import type { Dashboard } from '@grafana/schema'\n"
            f"export const board: Dashboard = {json.dumps(board)}\n"
        )
    compiler = [installed("node"), str(PACKAGES / "typescript" / "bin" / "tsc"), *OPTIONS]
    command = [*compiler, *(f"{name}.ts" for name in boards)]
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False
    ).stdout


def test_every_dashboard_is_one_by_grafanas_types(tmp_path: Path) -> None:
    """D15: dashboards that load as they are."""
    paths = (ROOT / "deploy" / "grafana").glob("*.json")
    boards = {path.stem: json.loads(path.read_text()) for path in paths}
    assert len(boards) == 5
    assert faults(tmp_path, boards) == ""


def test_what_is_no_dashboard_is_found(tmp_path: Path) -> None:
    assert "not assignable" in faults(tmp_path, {"wrong": {"title": 7, "panels": []}})
