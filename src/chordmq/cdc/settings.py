"""What a source of changes is told: its database, what of it is told, and where that goes."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from chordmq.cdc.errors import InvalidSource

Name = Annotated[str, Meta(pattern="^[a-z0-9_]{1,40}$")]
"""Part of the names of replication slots, which allow no more."""
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0.1)]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings in which a misspelt name is refused."""


class Names(Strict, frozen=True):
    """Regular expressions of whole names, as Debezium's lists; excluded beats included."""

    include: Sequence[str] = ()
    """Nothing means everything."""
    exclude: Sequence[str] = ()


class Columns(Names, frozen=True):
    """Which columns or fields are told, and how; names are `schema.table.column`."""

    mask: Mapping[str, str] = {}
    """Regular expression to what is shown instead of the value."""
    rename: Mapping[str, str] = {}
    """Regular expression to the name that is shown instead."""


class Topics(Strict, frozen=True):
    """Topics that are made for the output, and how much one step may write to them."""

    prefix: str = ""
    """The name of the source, unless told otherwise."""
    partitions: int = 1
    replication_factor: int = -1
    settings: Mapping[str, str] = {}
    message_bytes_max: Positive = 16 * 1024 * 1024
    dead_letter: str = ""
    """`<prefix>.dlq` unless told otherwise."""


class Pace(Strict, frozen=True):
    """How much is held in memory, and how often an idle source says so."""

    queue_events_max: Positive = 16_384
    queue_bytes_max: Positive = 64 * 1024 * 1024
    step_events_max: Positive = 8_192
    snapshot_rows: Positive = 2_048
    """Rows that are read at a time."""
    heartbeat_s: Seconds = 10.0


class Source(Strict, frozen=True, kw_only=True):
    """One database that is followed."""

    name: Name
    kind: Literal["postgresql", "mongodb"]
    address: str
    """A connection string; keep its password in the environment: ${SHOP_PASSWORD}."""
    tables: Names = Names()
    """`schema.table` or `database.collection`."""
    columns: Columns = Columns()
    format: Literal["debezium", "envelope"] = "debezium"
    snapshot: Literal["initial", "when_needed", "never"] = "when_needed"
    """`initial` stops where `when_needed` takes another snapshot, because changes are lost."""
    tombstones: bool = True
    skip: Sequence[Literal["c", "u", "d", "t"]] = ("t",)
    """Kinds of changes that are not told."""
    on_error: Literal["dead_letter", "skip", "fail"] = "dead_letter"
    heartbeats: bool = False
    """Also told in the topic `__debezium-heartbeat.<prefix>`; the position is kept in any case."""
    signals: str = ""
    """Table or collection where a row asks for a snapshot: `schema.table`."""
    topics: Topics = Topics()
    pace: Pace = Pace()
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """For /metrics and /health; 0 for none."""
    host: str = "127.0.0.1"
    # PostgreSQL
    slot: str = ""
    """`chordmq_<name>` unless told otherwise."""
    publication: str = ""
    """`chordmq_<name>` unless told otherwise; made if it is missing."""
    decimals: Literal["precise", "string", "double"] = "precise"
    # MongoDB
    images: Literal["post_image", "lookup", "off"] = "lookup"
    """Where the document after an update comes from."""
    before_images: bool = False
    """Also tell documents as they were; their collections must keep pre-images."""

    @property
    def prefix(self) -> str:
        """Return what the names of topics begin with."""
        return self.topics.prefix or self.name

    @property
    def dead_letter(self) -> str:
        """Return where changes go that cannot be told."""
        return self.topics.dead_letter or f"{self.prefix}.dlq"

    @property
    def positions(self) -> str:
        """Return the topic that keeps how far the source is."""
        return f"{self.name}.cdc-positions"

    @property
    def slot_name(self) -> str:
        """Return the replication slot."""
        return self.slot or f"chordmq_{self.name}"

    @property
    def publication_name(self) -> str:
        """Return the publication that names the tables in the database."""
        return self.publication or f"chordmq_{self.name}"


class BrokerAddress(Strict, frozen=True):
    """Where the output goes."""

    bootstrap: str = "127.0.0.1:9092"
    user: str = ""
    password: str = ""
    token: str = ""
    mechanism: str = ""
    tls: bool = False
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""


class Plan(Strict, frozen=True, kw_only=True):
    """A configuration file."""

    broker: BrokerAddress = BrokerAddress()
    sources: Annotated[Sequence[Source], Meta(min_length=1)]

    def source(self, name: str) -> Source:
        """Return a source by its name, or the only one; raise InvalidSource if there is none."""
        found = [one for one in self.sources if not name or one.name == name]
        if len(found) != 1:
            names = ", ".join(one.name for one in self.sources)
            raise InvalidSource(f"name one of these sources: {names}")
        return found[0]


def read_plan(content: object) -> Plan:
    """Return a configuration from plain values, or raise InvalidSource with what is wrong."""
    try:
        plan = msgspec.convert(content, Plan, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSource(str(error)) from None
    names = [source.name for source in plan.sources]
    if len(set(names)) != len(names):
        raise InvalidSource("two sources have the same name")
    for source in plan.sources:
        for pattern in _patterns(source):
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidSource(
                    f"{source.name}: {pattern!r} is no regular expression: {error}"
                ) from None
    return plan


def _patterns(source: Source) -> list[Any]:
    tables, columns = source.tables, source.columns
    lists = (tables.include, tables.exclude, columns.include, columns.exclude)
    return [one for names in lists for one in names] + [*columns.mask, *columns.rename]
