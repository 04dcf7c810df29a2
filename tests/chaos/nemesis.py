"""Does harm to a cluster by a seed: one fault after the other, sometimes two at once."""

import threading
from collections.abc import Callable, Iterable
from itertools import product
from random import Random

from tests.chaos.history import now_s
from tests.chaos.hosts import EtcdHost, Host, NodeHost
from tests.chaos.network import Network

Undo = Callable[[], None]
Pair = tuple[str, str]

LASTS_S = (2.0, 6.0)
APART_S = (1.0, 4.0)


class Nemesis:
    """Knows the hosts and what can be done to them; undoes what it has done."""

    def __init__(
        self, chance: Random, network: Network, nodes: list[NodeHost], etcd: list[EtcdHost]
    ) -> None:
        self._chance = chance
        self._network = network
        self._nodes = nodes
        self._etcd = etcd
        self._cuts: list[list[Pair]] = []
        self._stopped = threading.Event()
        self.told: list[str] = []
        """What was done, with the second at which it was."""
        self.faults: dict[str, Callable[[], tuple[str, Undo]]] = {
            "kill": self.kill,
            "pause": self.pause,
            "stop": self.stop_gracefully,
            "isolate": self.isolate,
            "one way": self.one_way,
            "halves": self.halves,
            "bridge": self.bridge,
            "store away": self.store_away,
            "slow": self.slow,
            "delay": self.delay,
            "kill etcd": self.kill_etcd,
            "pause etcd": self.pause_etcd,
        }
        if all(node.can_err for node in nodes):
            self.faults["wrong clock"] = self.wrong_clock
        if all(node.disk is not None for node in nodes):
            self.faults |= {
                "power cut": self.power_cut,
                "power cut of all": self.power_cut_of_all,
                "disk full": self.disk_full,
            }

    def run(self, seconds: float) -> None:
        """Do harm for a while, then undo all of it."""
        began_s = now_s()
        while now_s() - began_s < seconds and not self._stopped.is_set():
            count = 2 if self._chance.random() < 0.25 else 1
            undoing = []
            for name in self._chance.sample(sorted(self.faults), min(count, len(self.faults))):
                what, undo = self.faults[name]()
                self.told.append(f"{now_s() - began_s:6.1f} s  {what}")
                undoing.append(undo)
            self._stopped.wait(self._chance.uniform(*LASTS_S))
            for undo in undoing:
                undo()
            self.revive()
            self._stopped.wait(self._chance.uniform(*APART_S))
        self.heal()

    def stop(self) -> None:
        """Do no more harm."""
        self._stopped.set()

    def heal(self) -> None:
        """Undo everything and wait until all serve again."""
        self._cuts = []
        self._network.heal()
        hosts: list[Host] = [*self._etcd, *self._nodes]
        for host in hosts:
            host.resume()
        for node in self._nodes:
            node.set_clock(0)
            self._network.fast(node.name)
            self._network.prompt(node.name)
            if node.disk is not None:
                node.disk.empty()
        self.revive()
        for host in hosts:
            host.wait()

    def revive(self) -> None:
        """Start what has ended, by our doing or by its own decision, such as after a disk fault."""
        for host in (*self._etcd, *self._nodes):
            if not host.is_running:
                host.start()

    # What can be done.

    def kill(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        node.kill()
        return f"kill {node.name}", _nothing

    def stop_gracefully(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        if node.is_running:
            node.stop()
        return f"stop {node.name}", _nothing

    def pause(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        node.pause()
        return f"pause {node.name}", node.resume

    def kill_etcd(self) -> tuple[str, Undo]:
        member = self._chance.choice(self._etcd)
        member.kill()
        return f"kill {member.name}", _nothing

    def pause_etcd(self) -> tuple[str, Undo]:
        member = self._chance.choice(self._etcd)
        member.pause()
        return f"pause {member.name}", member.resume

    def isolate(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        others = [host.name for host in (*self._nodes, *self._etcd) if host is not node]
        return f"isolate {node.name}", self._cut(_both(product([node.name], others)))

    def one_way(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        others = [host.name for host in (*self._nodes, *self._etcd) if host is not node]
        if self._chance.random() < 0.5:
            return f"nobody hears {node.name}", self._cut([*product([node.name], others)])
        return f"{node.name} hears nobody", self._cut([*product(others, [node.name])])

    def halves(self) -> tuple[str, Undo]:
        names = [node.name for node in self._nodes]
        some = self._chance.sample(names, len(names) // 2)
        rest = [name for name in names if name not in some]
        return f"part {','.join(some)} from {','.join(rest)}", self._cut(_both(product(some, rest)))

    def bridge(self) -> tuple[str, Undo]:
        names = [node.name for node in self._nodes]
        middle = self._chance.choice(names)
        rest = [name for name in names if name != middle]
        some = rest[: len(rest) // 2]
        others = [name for name in rest if name not in some]
        what = f"only {middle} joins {','.join(some)} and {','.join(others)}"
        return what, self._cut(_both(product(some, others)))

    def store_away(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        members = [member.name for member in self._etcd]
        return f"{node.name} without store", self._cut(_both(product([node.name], members)))

    def slow(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        self._network.slow(node.name)
        return f"narrow line of {node.name}", lambda: self._network.fast(node.name)

    def delay(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        delay_ms = self._chance.choice([20, 50, 200])
        self._network.delay(node.name, delay_ms)
        return f"{delay_ms} ms to and from {node.name}", lambda: self._network.prompt(node.name)

    def wrong_clock(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        seconds = self._chance.choice([-60, 60])
        node.set_clock(seconds)
        return f"clock of {node.name} {seconds:+d} s", lambda: node.set_clock(0)

    def power_cut(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        self._lose_power([node])
        return f"power cut of {node.name}", _nothing

    def power_cut_of_all(self) -> tuple[str, Undo]:
        self._lose_power(self._nodes)
        return "power cut of all nodes", self._await_nodes

    def disk_full(self) -> tuple[str, Undo]:
        node = self._chance.choice(self._nodes)
        assert node.disk is not None
        node.disk.fill()
        return f"disk of {node.name} full", node.disk.empty

    def _await_nodes(self) -> None:
        """Let a cluster that was gone as a whole come back before more is done to it."""
        for node in self._nodes:
            node.start()
        for node in self._nodes:
            node.wait()

    def _lose_power(self, nodes: Iterable[NodeHost]) -> None:
        disks = [(node, node.disk) for node in nodes if node.disk is not None]
        for _, disk in disks:
            disk.cut_power()
        for node, _ in disks:
            node.kill()
        for _, disk in disks:
            disk.restore_power()

    def _cut(self, pairs: list[Pair]) -> Undo:
        self._cuts.append(pairs)
        self._network.cut(pair for cut in self._cuts for pair in cut)

        def undo() -> None:
            self._cuts.remove(pairs)
            self._network.cut(pair for cut in self._cuts for pair in cut)

        return undo


def _both(pairs: Iterable[Pair]) -> list[Pair]:
    return [way for one, other in pairs for way in ((one, other), (other, one))]


def _nothing() -> None:
    """What was killed is revived anyway."""
