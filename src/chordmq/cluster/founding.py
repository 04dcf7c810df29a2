"""What a store must hold before anything else: who the cluster is, and a secret of its brokers."""

import secrets
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable

from chordmq.cluster.metastore.store import Entry, Put
from chordmq.cluster.state import CLUSTER, SECRET, ClusterIdentity, Secret, encode

SECRET_SIZE = 32


def missing(entries: Iterable[Entry]) -> list[Put]:
    """Return what has to be added to these entries; it is random, so that only the first counts."""
    there = {entry.key for entry in entries}
    # Kafka's clients expect 22 characters: a UUID in base 64.
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    puts = [
        Put(CLUSTER, encode(ClusterIdentity(id=cluster_id))),
        Put(SECRET, encode(Secret(value=secrets.token_bytes(SECRET_SIZE)))),
    ]
    return [put for put in puts if put.key not in there]
