"""Says why a listener cannot be opened, and which setting helps."""

import errno
import socket

from chordmq.fronts.listener import Listener


def obstacle(listener: Listener, error: OSError) -> str:
    """Say why a listener could not be opened, and which setting helps."""
    host, port, name = listener.settings.host, listener.settings.port, listener.name
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use by another program. "
            f"Stop it, or choose another port with --set {name}.port=<port>."
        )
    if error.errno == errno.EACCES:
        return (
            f"Port {port} needs more rights. Choose one above 1023 with --set {name}.port=<port>."
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{host!r} is not an address of this machine. Change {name}.host."
    return f"{name}.port {port} on {host} cannot be opened: {error.strerror}."
