"""What a cluster knows of its brokers and partitions: keys in the store, and values as JSON."""

import hashlib
from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec

from chordmq.cluster.metastore.store import Entry

NO_LEADER = -1

CLUSTER = "cluster"
CONTROLLER = "controller"
PRODUCER_IDS = "pid/next"
BROKERS = "brokers/"
LIVE = "live/"
CLEAN = "clean/"
TOPICS = "topics/"
PARTITIONS = "parts/"
DEFAULTS = "settings/defaults"
GROUPS = "groups/"
USERS = "users/"
TOKENS = "tokens/"
SECRET = "secret"  # noqa: S105 (a key, not what lies there)
ACLS = "acl/"
ROLES = "roles/"
QUOTAS = "quotas/"
ROUTES = "routes/"


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all values share; unknown fields are skipped, so that versions can live together."""

    v: int = 1
    """The version of the form."""


class PartitionState(Value, frozen=True, kw_only=True):
    """Who holds a partition and who leads it; its partition epoch is the revision of its entry."""

    replicas: tuple[int, ...]
    """All brokers that hold it or are to hold it; the first is the preferred leader."""
    leader: int = NO_LEADER
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    """In-sync: whoever of them leads has all that was acknowledged."""
    elr: tuple[int, ...] = ()
    """Eligible though not in sync (KIP-966): they too have all that was acknowledged."""
    last_known_elr: tuple[int, ...] = ()
    """Those that were eligible before they may have lost their newest records."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class Endpoint(Value, frozen=True, kw_only=True):
    """Where a broker listens for one protocol."""

    host: str
    port: int
    tls: bool = False


class BrokerRegistration(Value, frozen=True, kw_only=True):
    """A broker as it registered; its broker epoch is the revision of its entry.

    Nothing else ever writes the entry, so that the epoch changes with each start and only then.
    """

    uuid: str
    """Of the data directory: another directory cannot take the broker's place."""
    endpoints: dict[str, Endpoint] = {}
    """By protocol: kafka, http, peer and so on, as others reach them."""
    rack: str = ""
    boot: str = ""
    """Of the machine: the same after a crash of the process, another after one of the machine."""
    incarnation: str = ""
    """Random, so that no two registrations are alike."""


class Liveness(Value, frozen=True, kw_only=True):
    """Kept under the broker's lease: it lives, and may be in in-sync sets and lead."""

    epoch: int
    """The broker epoch."""


class DiskTrust(Value, frozen=True, kw_only=True):
    """What makes a broker's next start a clean one: either of these is as it was."""

    epoch: int = 0
    """The broker epoch that ended with all data on disk."""
    boot: str = ""
    """Of the machine, when the broker was last taken out of all that it might lack."""


class ControllerLease(Value, frozen=True, kw_only=True):
    """Who looks after the partitions; the controller epoch is the revision that made the entry."""

    broker: int


class TopicState(Value, frozen=True, kw_only=True):
    """A topic; it exists exactly as long as its entry does."""

    id: str
    """32 hexadecimal digits."""
    partitions: int
    replication_factor: int = 1
    settings: dict[str, str] = {}
    is_manual: bool = False
    """Whether a person has said who holds its partitions, and not the ring."""


class ClusterIdentity(Value, frozen=True, kw_only=True):
    """Made by the first broker."""

    id: str


class Secret(Value, frozen=True, kw_only=True):
    """Known to all brokers and to nobody else."""

    value: bytes


class ProducerIds(Value, frozen=True, kw_only=True):
    """Which producer ids are given away."""

    next: int
    """The first that nobody has."""
    by: int
    """The broker that took the block before it."""


class Settings(Value, frozen=True, kw_only=True):
    """Settings by name, as given."""

    settings: dict[str, str]


class RouteState(Value, frozen=True, kw_only=True):
    """Where messages go whose names match the filter that the entry is called by."""

    topic: str
    key: str | None = None
    rank: int = 0


def broker_key(broker: int) -> str:
    """Return the key of a broker's registration."""
    return f"{BROKERS}{broker}"


def live_key(broker: int) -> str:
    """Return the key that exists while a broker lives and is not fenced."""
    return f"{LIVE}{broker}"


def clean_key(broker: int) -> str:
    """Return the key that says how far a broker's disk can be trusted."""
    return f"{CLEAN}{broker}"


def topic_key(name: str) -> str:
    """Return the key of a topic."""
    return named_key(TOPICS, name)


def partition_key(topic_id: bytes, index: int) -> str:
    """Return the key of a partition's state."""
    return f"{PARTITIONS}{topic_id.hex()}/{index}"


def partitions_key(topic_id: bytes) -> str:
    """Return the prefix of the keys of all partitions of a topic."""
    return f"{PARTITIONS}{topic_id.hex()}/"


def named_key(prefix: str, *names: str) -> str:
    """Return the key of what has these names."""
    return prefix + "/".join(quote(name, safe="") for name in names)


def acl_key(*fields: str) -> str:
    """Return the key of an ACL, which has no name but what it says."""
    return ACLS + hashlib.sha256("\0".join(fields).encode()).hexdigest()[:32]


def partition_of(key: str) -> tuple[bytes, int]:
    """Return the topic id and index in a partition's key."""
    _, topic, index = key.split("/")
    return bytes.fromhex(topic), int(index)


def broker_of(key: str) -> int:
    """Return the broker whom a key under brokers/, live/ or clean/ is about."""
    return int(key.rpartition("/")[2])


def name_of(key: str) -> str:
    """Return the name at the end of a key."""
    return unquote(key.rpartition("/")[2])


Form = TypeVar("Form", bound=Value)

encode = msgspec.json.encode


def decode(entry: Entry, form: type[Form]) -> Form:
    """Read an entry's value; a value that is none of ours raises msgspec.DecodeError."""
    return msgspec.json.decode(entry.value, type=form)
