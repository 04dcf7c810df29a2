"""How clients prove who they are, as the operator sets it."""

import re
from dataclasses import field

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM_256, SCRAM_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = (SCRAM_512, SCRAM_256, PLAIN, OAUTHBEARER)
USER_PREFIX = "User:"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """Whose tokens are believed (OAUTHBEARER, and bearer tokens over HTTP)."""

    jwks: str = ""
    """Public keys of the issuer: a file, or a URL that begins with https:// or http://."""
    issuer: str = ""
    """What `iss` must be."""
    audience: str = ""
    """What `aud` must name; empty accepts tokens for anybody."""
    name_claim: str = "sub"
    """The claim that names the user."""
    groups_claim: str = "groups"
    """The claim that names the user's groups."""
    clock_skew_s: float = 30.0
    """How far the issuer's clock may be from ours."""
    refresh_s: float = 3600.0
    """How often the keys are fetched again; an unknown key id fetches them at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LdapSettings:
    """The directory that checks the passwords of users this node does not know itself."""

    url: str = ""
    """ldap://host:389 or ldaps://host:636."""
    start_tls: bool = False
    """Ask for TLS on a connection that begins without."""
    ca: str = ""
    """File with the authorities that may sign the directory's certificate; empty: the system's."""
    bind_template: str = ""
    """The user's name in the directory, `uid={name},ou=people,dc=example,dc=org`; or search."""
    search_base: str = ""
    """Where the user is looked for, if there is no template."""
    search_filter: str = "(uid={name})"
    """How the user is found there; `{name}` is the name given at login."""
    search_user: str = ""
    """The service account that may search."""
    search_password: str = field(default="", repr=False)
    """Its password."""
    group_base: str = ""
    """Where groups are looked for; empty looks for none."""
    group_filter: str = "(member={dn})"
    """How a user's groups are found; `{dn}` is the user's name in the directory."""
    group_attribute: str = "cn"
    """What of an entry is the group's name."""
    timeout_s: float = 5.0
    """How long the directory may take to answer."""
    cache_s: float = 60.0
    """How long a right password is remembered without asking again."""
    threads: int = 8
    """Passwords that are checked at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """Which mechanisms are offered, and who must use one."""

    mechanisms: str = ""
    """Names with commas; empty offers none."""
    required: bool = True
    """With a mechanism on offer, refuse who does not log in."""
    super_users: str = ""
    """Users who may do everything: `User:admin;User:ops`."""
    session_max_ms: int = 0
    """Time after which a Kafka client must prove itself again; 0 for never."""
    frame_size_max: int = 512 * 1024
    """Largest request of a client that has not logged in."""
    oauth: OAuthSettings = field(default_factory=OAuthSettings)
    ldap: LdapSettings = field(default_factory=LdapSettings)

    @property
    def offered(self) -> tuple[str, ...]:
        """Return the mechanisms on offer, or raise InvalidSetting."""
        names = tuple(filter(None, (name.strip() for name in self.mechanisms.split(","))))
        for name in names:
            if name not in MECHANISMS:
                raise InvalidSetting(
                    f"auth.mechanisms: {name!r} is none of {', '.join(MECHANISMS)}"
                )
        return names

    @property
    def supers(self) -> frozenset[str]:
        """Return the names of those who may do everything."""
        # Commas belong to the names in certificates; between `User:`s they come from YAML lists.
        texts = re.split(r";|,(?=\s*User:)", self.super_users)
        return frozenset(filter(None, (text.strip().removeprefix(USER_PREFIX) for text in texts)))

    def check(self) -> None:
        """Raise InvalidSetting for settings that contradict each other."""
        offered = self.offered
        if OAUTHBEARER in offered and not (self.oauth.jwks and self.oauth.issuer):
            raise InvalidSetting("OAUTHBEARER needs auth.oauth.jwks and auth.oauth.issuer")
        ldap = self.ldap
        if ldap.url and PLAIN not in offered:
            raise InvalidSetting("auth.ldap.url: only the mechanism PLAIN can ask a directory")
        if ldap.url and not (ldap.bind_template or ldap.search_base):
            raise InvalidSetting("auth.ldap needs bind_template or search_base")
        if ldap.url and not ldap.url.startswith(("ldap://", "ldaps://")):
            raise InvalidSetting("auth.ldap.url begins with ldap:// or ldaps://")
