"""A real etcd of one or more members, each a process that tests kill, pause and start again."""

import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.running_node import die_with_parent, free_port

READY_TIMEOUT_S = 60.0


class EtcdMembers:
    """Members on loopback; their addresses and data stay the same over restarts."""

    def __init__(
        self,
        directory: Path,
        count: int = 1,
        options: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.directory = directory
        self.ports = [free_port() for _ in range(count)]
        self._peers = [free_port() for _ in range(count)]
        self._options = options
        self._tls = tls
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "EtcdMembers":
        try:
            for member in range(len(self.ports)):
                if member not in self._processes:
                    self.start(member, wait=False)
            for member in range(len(self.ports)):
                self.wait_until_ready(member)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Return the addresses as clients want them."""
        scheme = "https" if self._tls else "http"
        return tuple(f"{scheme}://127.0.0.1:{port}" for port in self.ports)

    def start(self, member: int, *, wait: bool = True) -> None:
        """Start one member, on its old data if it has any."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{member}.log").open("ab") as log:
            self._processes[member] = subprocess.Popen(
                self._command(member), stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent,
            )  # fmt: skip
        if wait:
            self.wait_until_ready(member)

    def wait_until_ready(self, member: int) -> None:
        """Return when the member serves, which takes a majority."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_healthy(member):
            assert time.monotonic() < deadline, f"etcd {member} did not become ready"
            time.sleep(0.02)

    def kill9(self, member: int) -> None:
        """End a member as a crash would."""
        process = self._processes.pop(member)
        process.kill()
        process.wait()

    def pause(self, member: int) -> None:
        """Stop a member without closing its connections."""
        self._processes[member].send_signal(signal.SIGSTOP)

    def resume(self, member: int) -> None:
        """Let a paused member go on."""
        self._processes[member].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End all members, whatever their state."""
        for member in list(self._processes):
            self.kill9(member)

    def _is_healthy(self, member: int) -> bool:
        try:
            with urllib.request.urlopen(
                f"{self.endpoints[member]}/health", timeout=2, context=self._tls
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def _command(self, member: int) -> list[str]:
        client, peer = self.endpoints[member], f"http://127.0.0.1:{self._peers[member]}"
        everyone = ",".join(
            f"m{one}=http://127.0.0.1:{port}" for one, port in enumerate(self._peers)
        )
        return [
            "etcd", "--name", f"m{member}", "--data-dir", str(self.directory / str(member)),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", everyone, "--logger", "zap", "--log-level", "warn",
            *self._options,
        ]  # fmt: skip
