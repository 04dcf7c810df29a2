"""The few Kafka requests the benchmark builds by itself, so that the client costs little."""

import socket
import struct

METADATA, API_VERSIONS, PRODUCE, FETCH = 3, 18, 0, 1
CLIENT_ID = b"bench"
CORRELATION_AT = 8  # after the frame's size, the API key and its version


def request(api_key: int, version: int, body: bytes, correlation_id: int = 0) -> bytes:
    """Return a whole frame of a request whose version has no tagged fields."""
    head = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(head) + len(body)) + head + body


def metadata_request() -> bytes:
    """Return a Metadata request, version 1, for no topic: it asks only who the brokers are."""
    return request(METADATA, 1, struct.pack(">i", 0))


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """Read `size` bytes or raise ConnectionError."""
    data = bytearray()
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += chunk
    return bytes(data)


def ask(sock: socket.socket, frame: bytes) -> bytes:
    """Send one request and return the body of its answer."""
    sock.sendall(frame)
    (size,) = struct.unpack(">i", read_exactly(sock, 4))
    return read_exactly(sock, size)[4:]


def brokers_known(port: int) -> int:
    """Return how many brokers the node at `port` names, 0 while it does not answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            answer = ask(sock, metadata_request())
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer)[0])
