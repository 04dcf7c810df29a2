"""AMQP 0-9-1 and AMQP 1.0 on one listener: a client's first bytes say which it speaks."""

from chordmq.fronts.amqp.connection import open_amqp
from chordmq.fronts.amqp1.connection import open_amqp1
from chordmq.fronts.opening import Connect, Opening


def open_amqp_versions(opening: Opening) -> Connect:
    """Begin to serve clients of either."""
    return open_amqp(opening, newer=open_amqp1)
