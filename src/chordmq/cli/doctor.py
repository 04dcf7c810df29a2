"""Checks whether this machine is fit to run a node, and says how to mend what is not."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_REFUSED
from chordmq.cli.http import DEFAULT_URL
from chordmq.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from chordmq.cli.output import console, show_json
from chordmq.cli.serve import Assignments

if TYPE_CHECKING:
    from chordmq.cli.diagnosis.finding import Check, Finding
    from chordmq.config import Config

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="CHORDMQ_URL",
        show_envvar=False,
        help="HTTP address of a running node, if not that of the settings. Or set CHORDMQ_URL.",
    ),
]


def doctor(
    file: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML file of the node to check.")
    ] = None,
    assignments: Assignments = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Where the node keeps its data.")
    ] = None,
    kafka_port: Annotated[int | None, typer.Option("--kafka-port", min=1, max=65535)] = None,
    http_port: Annotated[int | None, typer.Option("--http-port", min=1, max=65535)] = None,
    bootstrap: Bootstrap = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Check this machine and the node on it; say how to mend what is wrong.

    Exits with 1 when a check fails, with 0 when there are only warnings.

    \b
      chordmq doctor
      chordmq doctor --config node.yaml
      chordmq doctor --data-dir /var/lib/chordmq
      chordmq doctor --json | jq '.checks[] | select(.status != "ok")'
    """
    shortcuts = {"data_dir": data_dir, "kafka.port": kafka_port, "http.port": http_port}
    given = [f"{name}={value}" for name, value in shortcuts.items() if value is not None]
    findings = list(_findings(file, [*(assignments or []), *given], bootstrap, url))
    failed = any(finding.status == "fail" for finding in findings)
    if as_json:
        show_json({"ok": not failed, "checks": [asdict(finding) for finding in findings]})
    else:
        _show(findings)
    raise typer.Exit(EXIT_REFUSED if failed else 0)


def _findings(
    file: Path | None, assignments: list[str], bootstrap: str | None, url: str | None
) -> "list[Finding]":
    from chordmq.cli.diagnosis.finding import FAIL, OK, Finding, Place
    from chordmq.config import load
    from chordmq.errors import InvalidSetting

    try:
        config = load(file, environment=os.environ, assignments=assignments)
    except InvalidSetting as error:
        fix = "mend it: `chordmq config explain NAME` tells what a setting takes"
        return [Finding("settings", FAIL, str(error), fix)]
    place = Place(
        config=config,
        bootstrap=bootstrap or f"{DEFAULT_BOOTSTRAP.partition(':')[0]}:{config.kafka.port}",
        url=url or _url(config),
    )
    source = str(file) if file else "the defaults, the environment and --set"
    settings = Finding("settings", OK, f"{source} are valid")
    return [settings, *(finding for check in checks() for finding in check(place))]


def _url(config: "Config") -> str:
    scheme = "https" if config.http.tls.is_on else "http"
    host = DEFAULT_URL.removeprefix("http://").partition(":")[0]
    return f"{scheme}://{host}:{config.http.port}"


def checks() -> "list[Check]":
    """Return all checks, in the order in which people mend things."""
    from chordmq.cli.diagnosis import certificates, cluster, machine, network, storage

    return [
        machine.python,
        machine.acceleration,
        machine.compiled,
        machine.extras,
        machine.java,
        machine.open_files,
        machine.memory,
        machine.kernel,
        machine.words,
        machine.clock,
        storage.data_directory,
        storage.file_system,
        storage.permissions,
        storage.last_stop,
        network.ports,
        network.told_addresses,
        network.advertised,
        network.exposure,
        certificates.certificates,
        cluster.etcd,
        cluster.nodes,
        cluster.replicas,
        cluster.topics,
    ]


def _show(findings: "list[Finding]") -> None:
    marks = {"ok": "[green]ok  [/]", "warn": "[yellow]warn[/]", "fail": "[red]FAIL[/]"}
    out = console()
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        out.print(f"{marks[finding.status]}  {finding.check:<{width}}  ", end="")
        out.print(finding.detail, markup=False)
        if finding.fix:
            out.print(f"      {'':<{width}}  -> {finding.fix}", markup=False)
