"""The certificates of a TLS listener: read, checked, replaced while it runs; and what they say.

Whom a client's certificate names is written as in Kafka's `ssl.principal.mapping.rules`:
`RULE:^CN=(.*?),OU=iot.*$/$1/L, DEFAULT` takes the common name, in lower case, and the whole
distinguished name where the rule does not fit.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from chordmq.broker.security.principal import ANONYMOUS, Principal
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secrecy and authenticated encryption only; TLS 1.3 has nothing else."""
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
MODES = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
SHORT_NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""What RFC 2253 calls the parts of a name; others keep the name that OpenSSL gives them."""

_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|DEFAULT")
_GROUP = re.compile(r"\$(\d)")
_ESCAPED = re.compile(r'([,+"\\<>;])')


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How a listener proves who it is, and what it asks of clients."""

    certificate: str = ""
    """PEM file with the certificate and those between it and its authority; empty: no TLS."""
    key: str = ""
    """PEM file with the private key; empty when the certificate's file holds it."""
    client_ca: str = ""
    """PEM file with the authorities that may sign clients' certificates."""
    client_auth: Literal["none", "optional", "required"] = "none"
    """Whether clients may or must show a certificate."""
    min_version: Literal["1.2", "1.3"] = "1.2"
    """The oldest version of TLS that is spoken."""
    principal_rules: str = "DEFAULT"
    """Whom a client's certificate names."""
    handshake_timeout_s: float = 10.0
    """How long a client may take to agree on a connection."""

    @property
    def is_on(self) -> bool:
        """Return whether the listener speaks TLS."""
        return bool(self.certificate)

    def check(self, name: str) -> None:
        """Raise InvalidSetting for settings that contradict each other."""
        if not self.is_on and (self.key or self.client_ca or self.client_auth != "none"):
            raise InvalidSetting(f"{name}.certificate is missing")
        if self.client_auth != "none" and not self.client_ca:
            raise InvalidSetting(f"{name}.client_auth needs {name}.client_ca")
        read_rules(self.principal_rules)


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to make a user's name of a distinguished name; without a pattern the whole of it."""

    pattern: re.Pattern[str] | None = None
    template: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the user's name, or None if the rule does not fit."""
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        template = self.template.replace(r"\/", "/")
        user = _GROUP.sub(lambda group: found.group(int(group[1])) or "", template)
        return {"L": user.lower(), "U": user.upper()}.get(self.case, user)


def read_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules that a text means, or raise InvalidSetting."""
    rules = []
    position = 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise InvalidSetting(f"tls.principal_rules: cannot understand {text[position:]!r}")
        pattern, template, case = found.groups()
        try:
            rules.append(Rule(re.compile(pattern), template, case) if pattern else Rule())
        except re.error as error:
            raise InvalidSetting(f"tls.principal_rules: {pattern!r}: {error}") from None
        position = found.end()
        rest = re.compile(r"\s*(,\s*|$)").match(text, position)
        if rest is None:
            raise InvalidSetting(f"tls.principal_rules: a comma is missing at {text[position:]!r}")
        position = rest.end()
    return tuple(rules)


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Return the subject as RFC 2253 writes it, the most specific part first."""
    parts = [
        "+".join(f"{SHORT_NAMES.get(key, key)}={_escaped(value)}" for key, value in part)
        for part in certificate.get("subject", ())
    ]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    escaped = _ESCAPED.sub(r"\\\1", value)
    return "\\" + escaped if escaped.startswith(("#", " ")) else escaped


class Certificates:
    """The context that new connections use; those that are open keep theirs."""

    def __init__(self, settings: TlsSettings, alpn: Sequence[str] = ()) -> None:
        self._settings = settings
        self._alpn = list(alpn)
        self._rules = read_rules(settings.principal_rules)
        self._seen = self._stamps()
        self.context = self._load()

    @property
    def facts(self) -> dict[str, str]:
        """Return what an operator wants to see after a change."""
        return {"file": self._settings.certificate}

    @property
    def handshake_timeout_s(self) -> float:
        """Return how long a client may take to agree on keys."""
        return self._settings.handshake_timeout_s

    def reload(self) -> bool:
        """Read the files again if they have changed; raise InvalidSetting if they are broken."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        self.context = self._load()
        return True

    def principal(self, certificate: Mapping[str, Any] | None) -> Principal:
        """Return the user that a verified certificate names; without one, nobody."""
        if not certificate:
            return ANONYMOUS
        name = distinguished_name(certificate)
        for rule in self._rules:
            user = rule.apply(name)
            if user:
                return Principal(user)
        return ANONYMOUS

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        settings = self._settings
        files = filter(None, (settings.certificate, settings.key, settings.client_ca))
        return [_stamp(Path(file)) for file in files]

    def _load(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[settings.min_version]
        context.set_ciphers(CIPHERS)
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
        file = settings.certificate
        try:
            # An encrypted key must fail, not ask on the terminal of a service.
            context.load_cert_chain(file, settings.key or None, password=_no_password)
            if settings.client_ca:
                file = settings.client_ca
                context.load_verify_locations(file)
        except ssl.SSLError as error:
            raise InvalidSetting(f"{file}: {error.reason or 'is not a usable PEM file'}") from None
        except OSError as error:
            raise InvalidSetting(f"{error.filename or file}: {error.strerror}") from None
        context.verify_mode = MODES[settings.client_auth]
        if self._alpn:
            context.set_alpn_protocols(self._alpn)
        return context


def _no_password() -> str:
    return ""


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
