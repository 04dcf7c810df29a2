"""What can be set for a node's place in the tree, and for its pipes."""

import re
from dataclasses import field
from typing import TYPE_CHECKING

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

if TYPE_CHECKING:
    from chordmq.client.security import Security
    from chordmq.topology.registry.nodes import Role

WAIT_MS = 20_000
CAPACITY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PipesSettings:
    """Whom a node belongs to, and what it copies from whom."""

    registry: str = ""
    """URL of the registry that gives this node its role and parent."""
    parent: str = ""
    """URL of the parent, where there is no registry; of a cluster, those of all its nodes.
    `kafka://host:9092` copies from an Apache Kafka."""
    node: str = ""
    """What this node is called in the registry; its cluster id if nothing is said."""
    role: str = ""
    """The role that this node wants: ROOT, L2, L3, POS or LOCAL."""
    labels: str = ""
    """Such as `region=west,kind=shop`; a parent with more labels in common is preferred."""
    capacity: int = CAPACITY
    """How many children this node takes."""
    url: str = ""
    """Where other nodes find this one; the HTTP listener's address if nothing is said."""
    topics: str = ""
    """Topics to copy from the parent, regular expressions with commas."""
    upstream: str = ""
    """Topics to copy from the children, regular expressions with commas."""
    token: str = field(default="", repr=False)
    """The token that other nodes ask for."""
    user: str = ""
    """The user as whom a Kafka is asked, with SASL."""
    password: str = field(default="", repr=False)
    """Its password."""
    registry_token: str = field(default="", repr=False)
    """The token that the registry asks for."""
    wait_ms: int = WAIT_MS
    """How long a parent may wait for something new before it answers."""
    batch_bytes: int = 1024 * 1024
    """How much is asked for at once, for each partition."""
    bytes_per_s: int = 0
    """A limit on what all pipes of this node take from the network; 0 for none."""
    schedule: str = ""
    """Other limits by the time of day in UTC: `08:00-20:00=off,20:00-22:00=65536`."""
    tls_ca: str = ""
    """PEM file with the authorities that other nodes and the registry are checked against."""
    tls_certificate: str = ""
    """PEM file with the certificate that this node shows them, and its key unless given apart."""
    tls_key: str = ""
    """PEM file with the key of the certificate."""
    topics_interval_s: float = 2.0
    """How often other nodes are asked whether they have new topics."""

    @property
    def is_on(self) -> bool:
        """Return whether the node has a place in a tree."""
        return bool(self.registry or self.parent)

    @property
    def wanted_role(self) -> "Role | None":
        """Return the role that the node asks for, if it does."""
        from chordmq.topology.registry.nodes import RANKS

        return next((role for role in RANKS if role == self.role), None)

    @property
    def label_pairs(self) -> dict[str, str]:
        """Return the labels by name."""
        parts = [part.partition("=") for part in self.labels.split(",") if part.strip()]
        return {name.strip(): text.strip() for name, _, text in parts}

    @property
    def security(self) -> "Security":
        """Return who this node is for others, and whom it trusts."""
        from chordmq.client.security import Security

        return Security(
            user=self.user,
            password=self.password,
            token="" if self.user else self.token,
            tls_ca=self.tls_ca,
            tls_certificate=self.tls_certificate,
            tls_key=self.tls_key,
        )

    def check(self) -> None:
        """Raise InvalidSetting for what cannot be meant."""
        if self.role and self.wanted_role is None:
            from chordmq.topology.registry.nodes import RANKS

            raise InvalidSetting(f"pipes.role: {self.role!r} is none of {', '.join(RANKS)}")
        for name in ("topics", "upstream"):
            try:
                patterns(getattr(self, name))
            except re.error as error:
                raise InvalidSetting(f"pipes.{name}: not a regular expression: {error}") from None
        for name in ("registry", "parent", "url"):
            text = getattr(self, name)
            schemes = ("http://", "https://", "kafka://")[: 3 if name == "parent" else 2]
            if text and not text.startswith(schemes):
                raise InvalidSetting(f"pipes.{name}: {text!r} begins with none of {schemes}")
        if self.schedule:
            self._check_schedule()
        if self.upstream and not self.registry:
            raise InvalidSetting("pipes.upstream needs pipes.registry, which knows the children")

    def _check_schedule(self) -> None:
        from chordmq.topology.pipe import read_schedule

        try:
            read_schedule(self.schedule)
        except ValueError as error:
            raise InvalidSetting(f"pipes.schedule: {error}") from None


def patterns(text: str) -> list[re.Pattern[str]]:
    """Return the regular expressions of a setting."""
    return [re.compile(part.strip()) for part in text.split(",") if part.strip()]
