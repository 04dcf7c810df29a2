"""Checks of the node's certificates: their time, their names, and the keys that go with them."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from chordmq.cli.diagnosis.finding import FAIL, OK, WARN, Finding, Place
from chordmq.cli.diagnosis.network import WILDCARDS
from chordmq.config import listeners

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from chordmq.fronts.listener import ListenerSettings

WARNING_TIME = timedelta(days=30)
NEW_FIX = "make a new one: chordmq certs node --host ..., then send the node SIGHUP"


def certificates(place: Place) -> Iterator[Finding]:
    """Check the certificate of each listener that has one."""
    for name, settings in listeners(place.config).items():
        if settings.tls.is_on:
            yield _checked(name, settings)


def _checked(name: str, settings: "ListenerSettings") -> Finding:
    from cryptography.x509 import load_pem_x509_certificates

    title, path = f"{name} certificate", Path(settings.tls.certificate)
    try:
        leaf = load_pem_x509_certificates(path.read_bytes())[0]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path, settings.tls.key or None)
    except (OSError, ValueError) as error:
        fix = f"--set {name}.tls.certificate=... and {name}.tls.key=... that belong together"
        return Finding(title, FAIL, f"{path} cannot be used: {error}", fix)
    now = datetime.now(tz=UTC)
    end = leaf.not_valid_after_utc
    if not leaf.not_valid_before_utc <= now <= end:
        detail = f"{path} is valid from {leaf.not_valid_before_utc:%F} to {end:%F}"
        return Finding(title, FAIL, detail, NEW_FIX)
    told = settings.advertised_host or settings.host
    if told not in WILDCARDS and not any(_is_for(told, one) for one in _names(leaf)):
        detail = f"{path} is for {', '.join(_names(leaf)) or 'nobody'}, clients come to {told}"
        return Finding(title, FAIL, detail, NEW_FIX)
    if end - now < WARNING_TIME:
        return Finding(title, WARN, f"{path} ends on {end:%F}", NEW_FIX)
    return Finding(title, OK, f"{path} is valid until {end:%F}")


def _is_for(host: str, name: str) -> bool:
    """Say whether a certificate's name means a host; `*` stands for one level."""
    if name.startswith("*."):
        return host.partition(".")[2].lower() == name[2:].lower()
    return host.lower() == name.lower()


def _names(leaf: "Certificate") -> list[str]:
    """Return the names and addresses that a certificate is for, those of `*.` as they are."""
    from cryptography.x509 import DNSName, ExtensionNotFound, IPAddress, SubjectAlternativeName

    try:
        names = leaf.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return []
    addresses = names.get_values_for_type(IPAddress)
    return [*names.get_values_for_type(DNSName), *(str(ip_address(str(one))) for one in addresses)]
