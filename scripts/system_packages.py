"""Installs the Debian packages that a make target needs and that are not there yet."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

Present = Callable[[], bool]


def command(name: str) -> Present:
    """Return a check for a program on the PATH."""
    return lambda: shutil.which(name) is not None


def module(name: str) -> Present:
    """Return a check for a module of the running Python."""
    return lambda: importlib.util.find_spec(name) is not None


# Debian ships the venv module without pip in the base package.
VENV = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
COMPILER: dict[str, Present] = {
    "gcc": command("cc"),
    "libc6-dev": lambda: Path("/usr/include/stdio.h").exists(),
    "python3-dev": lambda: Path(sysconfig.get_path("include"), "Python.h").exists(),
}
GROUPS: dict[str, dict[str, Present]] = {
    "setup": {VENV: module("ensurepip")},
    # Some modules are compiled; without it they run as plain Python.
    "compile": COMPILER,
    # The data pipeline; without it the node runs alone.
    "run": {"default-jre-headless": command("java")},
    "test": {
        "kcat": command("kcat"),
        "default-jdk-headless": command("javac"),
        "maven": command("mvn"),
        "iproute2": command("ip"),
        "mosquitto-clients": command("mosquitto_rr"),
        "chromium": command("chromium"),
        "etcd-server": command("etcd"),
        "prometheus": command("promtool"),
        "redis-server": command("redis-server"),
        "rabbitmq-server": lambda: Path("/usr/lib/rabbitmq/bin/rabbitmq-server").exists(),
        "g++": lambda: Path("/usr/bin/g++").exists(),
        "python3-dev": COMPILER["python3-dev"],
        "capnproto": lambda: Path("/usr/bin/capnp").exists(),
        "libcapnp-dev": lambda: Path("/usr/include/capnp/ez-rpc.h").exists(),
        # Its server lies in a folder of its version.
        "postgresql": lambda: any(Path("/usr/lib/postgresql").glob("*/bin/postgres")),
        # They lie where only administrators' paths lead.
        "mosquitto": lambda: Path("/usr/sbin/mosquitto").exists(),
        "slapd": lambda: Path("/usr/sbin/slapd").exists(),
        "nftables": lambda: Path("/usr/sbin/nft").exists(),
        "debootstrap": lambda: Path("/usr/sbin/debootstrap").exists(),
    },
    # Peers that only benchmarks need.
    "bench": {"nats-server": lambda: Path("/usr/sbin/nats-server").exists()},
}


def missing(group: str) -> list[str]:
    """Return the packages of a group whose contents cannot be found."""
    return [package for package, present in GROUPS[group].items() if not present()]


def install(packages: list[str]) -> None:
    """Install packages by apt, refreshing its lists only if it does not know them."""
    apt = [*([] if os.geteuid() == 0 else ["sudo"]), "env", "DEBIAN_FRONTEND=noninteractive"]
    apt += ["apt-get", "-qq", "-o=Dpkg::Use-Pty=0", "-o=Acquire::Retries=3"]
    known = subprocess.run(["apt-cache", "show", *packages], capture_output=True, check=False)
    if known.returncode != 0:
        print("Refreshing the list of Debian packages", flush=True)
        subprocess.run([*apt, "update"], check=True)
    command_line = [*apt, "install", "-y", "--no-install-recommends", *packages]
    if subprocess.run(command_line, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        # Lists that are too old name package versions that the mirror has deleted.
        subprocess.run([*apt, "update"], check=True)
        subprocess.run(command_line, stdout=subprocess.DEVNULL, check=True)


def main(group: str) -> int:
    """Install what the group lacks; on a system without apt say what to install by hand."""
    packages = missing(group)
    if not packages:
        return 0
    names = " ".join(packages)
    if shutil.which("apt-get") is None or (os.geteuid() != 0 and shutil.which("sudo") is None):
        print(f"Please install what these Debian packages hold: {names}", file=sys.stderr)
        return 1
    print(f"Installing Debian packages: {names}", flush=True)
    try:
        install(packages)
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(error.cmd)} failed with code {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
