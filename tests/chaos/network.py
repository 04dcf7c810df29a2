"""A network of namespaces on one bridge, whose links between hosts can be cut; needs root."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence

NFT = shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or "nft"
TC = shutil.which("tc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or "tc"
IP = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or "ip"


class Network:
    """Hosts by name, each with an address of its own; clients stand outside, on the bridge."""

    def __init__(self, hosts: Sequence[str], number: int) -> None:
        self._prefix = f"10.{64 + number % 64}.{number // 64 % 256}"
        self._tag = f"cq{number % 100_000}"
        self.addresses = {host: f"{self._prefix}.{i}" for i, host in enumerate(hosts, 1)}
        self._spaces = {host: f"{self._tag}-{host}" for host in hosts}
        self._links = {host: f"{self._tag}v{i}" for i, host in enumerate(hosts)}
        self._detours: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Network":
        try:
            self._ip("link", "add", self._tag, "type", "bridge")
            self._ip("addr", "add", f"{self._prefix}.254/24", "dev", self._tag)
            self._ip("link", "set", self._tag, "up")
            for host, link in self._links.items():
                self._add(host, link)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def inside(self, host: str, command: Sequence[str]) -> list[str]:
        """Return how to run a command on a host.

        Not by `ip netns exec`, which gives each program mounts of its own: a disk that one of them
        has lost would live on in the others'.
        """
        return ["nsenter", f"--net=/run/netns/{self._spaces[host]}", *command]

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Drop what goes from the first to the second of each pair; everything else passes."""
        rules = "".join(
            f"ip saddr {self.addresses[one]} ip daddr {self.addresses[other]} drop; "
            for one, other in pairs
        )
        chain = f"chain f {{ type filter hook forward priority 0; {rules} }};"
        self._nft(f"table bridge {self._tag} {{ {chain} }}" if rules else "")

    def slow(self, host: str) -> None:
        """Have everything that a host sends wait in a queue behind a narrow line."""
        shape = ("tbf", "rate", "2mbit", "burst", "16kbit", "latency", "400ms")
        self._tc(host, "replace", *shape)

    def fast(self, host: str) -> None:
        """Give a host its full line again."""
        self._tc(host, "del")

    def delay(self, host: str, delay_ms: int) -> None:
        """Let everything from and to a host come late, and not in its order.

        Its link is taken off the bridge, and a process passes frames on from there.
        """
        link = self._links[host]
        self._ip("link", "set", link, "nomaster")
        self._ip("link", "set", f"{link}b", "master", self._tag)
        command = [sys.executable, "-m", "tests.chaos.detour", link, f"{link}a", str(delay_ms)]
        detour = self._detours[host] = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert detour.stdout is not None
        detour.stdout.readline()

    def prompt(self, host: str) -> None:
        """Let everything from and to a host come at once again."""
        detour = self._detours.pop(host, None)
        if detour is not None:
            detour.kill()
            detour.communicate()
            self._ip("link", "set", f"{self._links[host]}b", "nomaster")
            self._ip("link", "set", self._links[host], "master", self._tag)

    def heal(self) -> None:
        """Let everything pass."""
        self.cut([])

    def close(self) -> None:
        """Take everything away, as far as it is there."""
        for detour in self._detours.values():
            detour.kill()
            detour.communicate()
        for space in self._spaces.values():
            subprocess.run([IP, "netns", "del", space], capture_output=True, check=False)
        # A namespace with connections that nobody answers lives on for a while; its link need not.
        links = [name for link in self._links.values() for name in (link, f"{link}a")]
        for name in (*links, self._tag):
            subprocess.run([IP, "link", "del", name], capture_output=True, check=False)
        table = f"table bridge {self._tag}\ndelete table bridge {self._tag}\n"
        subprocess.run([NFT, "-f", "-"], input=table.encode(), capture_output=True, check=False)

    def _add(self, host: str, link: str) -> None:
        space = self._spaces[host]
        self._ip("netns", "add", space)
        self._ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        self._ip("link", "set", link, "master", self._tag, "up")
        self._ip("link", "add", f"{link}a", "up", "type", "veth", "peer", "name", f"{link}b")
        self._ip("link", "set", f"{link}b", "up")
        self._ip("-n", space, "addr", "add", f"{self.addresses[host]}/24", "dev", "eth0")
        self._ip("-n", space, "link", "set", "eth0", "up")
        self._ip("-n", space, "link", "set", "lo", "up")

    def _tc(self, host: str, act: str, *shape: str) -> None:
        command = [TC, "-n", self._spaces[host], "qdisc", act, "dev", "eth0", "root", *shape]
        subprocess.run(command, check=act != "del", capture_output=True)

    def _ip(self, *arguments: str) -> None:
        subprocess.run([IP, *arguments], check=True, capture_output=True)

    def _nft(self, table: str) -> None:
        """Replace all rules of this network at once."""
        text = f"table bridge {self._tag}\ndelete table bridge {self._tag}\n{table}\n"
        subprocess.run([NFT, "-f", "-"], input=text.encode(), check=True, capture_output=True)
