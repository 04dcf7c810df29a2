"""Passes frames from one network interface to another, late: the delay that this kernel's tc lacks.

Runs as a process of its own: `python -m tests.chaos.detour ONE OTHER MS`.
"""

import heapq
import selectors
import socket
import sys
import time
from random import Random

SOL_PACKET = 263
PACKET_VNET_HDR = 15
"""Frames come with what the kernel still has to do to them, and are sent on with it: large TCP
segments are cut, and checksums computed, only behind the other interface."""
PACKET_OUTGOING = 4
ALL_PROTOCOLS = 0x0003
FRAME_BYTES_MAX = 1 << 17
BUFFER_BYTES = 8 << 20
JITTER = 0.2
READY = "ready"

Waiting = tuple[float, int, socket.socket, bytes]


def opened(interface: str) -> socket.socket:
    """Return a socket that gets and sends all frames of an interface."""
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    one.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    one.bind((interface, ALL_PROTOCOLS))
    one.setblocking(False)
    return one


def received(one: socket.socket) -> bytes | None:
    """Return the next frame that others sent; None if there is none."""
    while True:
        try:
            frame, (_, _, kind, *_) = one.recvfrom(FRAME_BYTES_MAX)
        except BlockingIOError:
            return None
        if kind != PACKET_OUTGOING:
            return frame


def sent(one: socket.socket, frame: bytes) -> None:
    """Send a frame; one that the interface does not take is lost, as on any network."""
    try:
        one.send(frame)
    except OSError:
        pass


def main(one: str, other: str, delay_ms: str) -> None:
    """Pass frames both ways until killed."""
    ends = (opened(one), opened(other))
    chance, delay_s = Random(0), float(delay_ms) / 1000
    waiting: list[Waiting] = []
    count = 0
    with selectors.DefaultSelector() as selector:
        for here, there in (ends, ends[::-1]):
            selector.register(here, selectors.EVENT_READ, there)
        print(READY, flush=True)
        while True:
            timeout_s = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
            for key, _ in selector.select(timeout_s):
                assert isinstance(key.fileobj, socket.socket)
                while (frame := received(key.fileobj)) is not None:
                    due_s = time.monotonic() + delay_s * chance.uniform(1 - JITTER, 1 + JITTER)
                    heapq.heappush(waiting, (due_s, count, key.data, frame))
                    count += 1
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, there, frame = heapq.heappop(waiting)
                sent(there, frame)


if __name__ == "__main__":
    main(*sys.argv[1:])
