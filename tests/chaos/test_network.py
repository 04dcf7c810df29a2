"""Hosts of a network of namespaces hear each other, late or not at all, as told; needs root."""

import os
import subprocess

import pytest

from tests.chaos.network import Network

ECHO = """
import socket, sys, time
if sys.argv[1] == "serve":
    server = socket.create_server(("", 7007))
    print("ready", flush=True)
    while True:
        peer, _ = server.accept()
        while data := peer.recv(1 << 16):
            peer.sendall(data)
else:
    peer = socket.create_connection((sys.argv[2], 7007), timeout=float(sys.argv[3]))
    began_s = time.monotonic()
    for size in (1, 300_000):
        peer.sendall(b"x" * size)
        while size:
            size -= len(peer.recv(1 << 16))
    print(int((time.monotonic() - began_s) * 1000))
"""


def test_a_delayed_host_is_heard_late_and_whole() -> None:
    """X5: delays are real ones, of TCP segments in both directions."""
    # It makes network namespaces: without root it fails, and says so.
    with Network(["n1", "n2"], os.getpid()) as network:
        python = ["python3", "-c", ECHO]
        server = subprocess.Popen(network.inside("n1", [*python, "serve"]), stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            server.stdout.readline()
            asking = network.inside("n2", [*python, "ask", network.addresses["n1"]])
            network.delay("n1", 100)
            late_ms = int(subprocess.check_output([*asking, "60"], timeout=90))
            network.prompt("n1")
            subprocess.check_output([*asking, "60"], timeout=90)
            network.cut([("n1", "n2")])
            with pytest.raises(subprocess.CalledProcessError):
                subprocess.check_output([*asking, "0.5"], timeout=90, stderr=subprocess.DEVNULL)
        finally:
            server.kill()
            server.communicate()
    # Two ways, two round trips at the least, each a fifth shorter at most.
    assert late_ms >= 2 * 2 * 100 * 0.8 - 1
