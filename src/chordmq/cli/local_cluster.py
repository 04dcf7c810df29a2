"""Runs a whole cluster on this machine: an etcd and several nodes, until told to stop.

Every listener of node 2 has the port of node 1 plus 100, and so on. A node that dies is started
again a little later, so that one can be killed to see what happens.
"""

import asyncio
import os
import random
import shutil
import signal
import socket
import sys
import urllib.error
import urllib.request
from dataclasses import fields
from pathlib import Path

import typer

from chordmq.cli.companion import Companion, keep_running
from chordmq.cli.exits import EXIT_INTERRUPTED, EXIT_REFUSED
from chordmq.cli.output import say
from chordmq.cli.serve import shown_command
from chordmq.config import Config
from chordmq.dataclass import dataclass
from chordmq.fronts.listener import ListenerSettings
from chordmq.version import VERSION

NODES_MAX = 9
PORT_STEP = 100
PORTS = ("port", "tls_port")
REPLICAS = 3
ETCD_PORT = 2379
CHOSEN_PORTS = range(12_000, 15_000)
"""For listeners whose port is set to 0."""
READY_TIMEOUT_S = 60.0
LOOK_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One of the nodes: its number, and where it can be reached."""

    number: int
    directory: Path
    ports: dict[str, int]
    """By the name of the setting."""

    @property
    def kafka(self) -> str:
        """Return the address for Kafka clients."""
        return f"127.0.0.1:{self.ports['kafka.port']}"

    @property
    def log(self) -> Path:
        """Return where the node writes what it has to say."""
        return self.directory / "node.log"

    def is_ready(self) -> bool:
        """Ask the node whether it serves clients."""
        try:
            url = f"http://127.0.0.1:{self.ports['http.port']}/ready"
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def run_cluster(config: Config, count: int, assignments: list[str]) -> None:
    """Run nodes and an etcd until SIGTERM or SIGINT; a second signal ends all without waiting."""
    etcd = shutil.which("etcd")
    if etcd is None:
        say("chordmq: several nodes need etcd; install it (Debian: apt-get install etcd-server)")
        raise typer.Exit(EXIT_REFUSED)
    directory = config.data_dir.resolve()
    given: set[int] = set()
    nodes = [local_node(config, directory, number, given) for number in range(1, count + 1)]
    client_port, peer_port = free_port(ETCD_PORT, given), free_port(ETCD_PORT + 1, given)
    store = etcd_beside(etcd, directory / "etcd", client_port, peer_port)
    endpoint = f"http://127.0.0.1:{client_port}"
    companions = [node_beside(node, count, endpoint, assignments) for node in nodes]
    asyncio.run(until_stopped(store, companions, nodes))


def local_node(config: Config, directory: Path, number: int, given: set[int]) -> LocalNode:
    """Return where a node lives and listens; the ports chosen for it count as given."""
    ports = {}
    for part in fields(config):
        settings = getattr(config, part.name)
        if isinstance(settings, ListenerSettings):
            for name in (one.name for one in fields(settings) if one.name in PORTS):
                port = getattr(settings, name)
                ports[f"{part.name}.{name}"] = (
                    port + (number - 1) * PORT_STEP if port else free_port(0, given)
                )
    return LocalNode(number, directory / f"node{number}", ports)


def node_beside(node: LocalNode, count: int, endpoint: str, assignments: list[str]) -> Companion:
    """Return how to run a node; what the user sets counts for all nodes and comes last."""
    replicas = min(REPLICAS, count)
    settings = {
        "broker.default.replication.factor": replicas,
        "broker.min.insync.replicas": max(1, replicas - 1),
        "cluster.store": "etcd",
        "cluster.endpoints": endpoint,
    }
    own = {"broker.node.id": node.number, "data_dir": node.directory}
    own |= node.ports
    chosen = [
        *(f"{name}={value}" for name, value in settings.items()),
        *assignments,
        *(f"{name}={value}" for name, value in own.items()),
    ]
    command = [sys.executable, "-m", "chordmq", "serve"]
    for assignment in chosen:
        command += ["--set", assignment]
    return Companion(f"node {node.number}", command, node.log, niceness=0)


def etcd_beside(program: str, directory: Path, client_port: int, peer_port: int) -> Companion:
    """Return how to run an etcd of one member."""
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    command = [
        program, "--name", "local", "--data-dir", str(directory),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"local={peer}",
        "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h",
    ]  # fmt: skip
    return Companion("etcd", command, directory.parent / "etcd.log", niceness=0)


async def until_stopped(
    store: Companion, companions: list[Companion], nodes: list[LocalNode]
) -> None:
    """Run everything until the first signal; the nodes end before what they rely on."""
    stopped = asyncio.Event()

    def stop() -> None:
        if stopped.is_set():
            os._exit(EXIT_INTERRUPTED)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with asyncio.TaskGroup() as stores:
        etcd = stores.create_task(keep_running(store, say))
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(keep_running(one, say)) for one in companions]
            is_up = await ready(nodes, stopped)
            if is_up:
                welcome(nodes)
                await stopped.wait()
                say("stopping")
            for task in running:
                task.cancel()
        etcd.cancel()
    if not is_up and not stopped.is_set():
        say(f"chordmq: the cluster did not start; see {nodes[0].log} and {store.log}")
        raise typer.Exit(EXIT_REFUSED)


async def ready(nodes: list[LocalNode], stopped: asyncio.Event) -> bool:
    """Wait until every node serves clients; False if that takes too long, or is not wanted."""
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            for node in nodes:
                while not await asyncio.to_thread(node.is_ready):
                    if stopped.is_set():
                        return False
                    await asyncio.sleep(LOOK_INTERVAL_S)
    except TimeoutError:
        return False
    return True


def welcome(nodes: list[LocalNode]) -> None:
    """Tell people where the nodes listen and what to try first."""
    from rich.console import Console
    from rich.panel import Panel

    command = shown_command(nodes[0].kafka)
    lines = [
        *(
            f"Node {node.number}   Kafka [bold]{node.kafka}[/]   "
            f"HTTP [bold]http://127.0.0.1:{node.ports['http.port']}[/]   {node.directory}"
            for node in nodes
        ),
        "",
        "Try, in another terminal:",
        f"  {command} cluster show --url http://127.0.0.1:{nodes[0].ports['http.port']}",
        f"  {command} topics create hello",
        "  kill -9 one of the nodes: it is started again, and nothing is lost",
        "",
        "Ctrl-C stops all nodes.",
    ]
    title = f"ChordMQ {VERSION}: {len(nodes)} nodes are ready"
    Console().print(Panel("\n".join(lines), title=title, expand=False, padding=(1, 2)))


def free_port(wanted: int, given: set[int]) -> int:
    """Return a port if nobody listens on it, else another; none is given twice.

    The others lie below those that the system hands out: a node starts some seconds after its
    port was chosen, and a connection of anybody could have come in between.
    """
    for port in (wanted, *random.sample(CHOSEN_PORTS, len(CHOSEN_PORTS))):
        if port and port not in given and is_free(port):
            given.add(port)
            return port
    raise AssertionError("there are more ports than listeners")


def is_free(port: int) -> bool:
    """Try to listen on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
