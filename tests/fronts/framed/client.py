"""A client of the plain length-prefixed protocol."""

import socket
import struct


class Client:
    """A socket that speaks in frames."""

    def __init__(self, address: tuple[str, int], hello: str = "") -> None:
        self.socket = socket.create_connection(address, timeout=60)
        if hello:
            self.send(hello.encode())

    def send(self, *payloads: bytes) -> None:
        self.socket.sendall(b"".join(struct.pack(">i", len(p)) + p for p in payloads))

    def receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def take(self, count: int) -> list[bytes]:
        return [self.receive() for _ in range(count)]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()
