"""Certificates: whom they name, and how they are replaced."""

import os
from pathlib import Path

import pytest
import trustme

from chordmq.broker.security.principal import ANONYMOUS
from chordmq.errors import InvalidSetting
from chordmq.fronts.certificates import (
    Certificates,
    TlsSettings,
    distinguished_name,
    read_rules,
)

SUBJECT = (
    (("countryName", "DE"),),
    (("organizationName", "Acme, Inc."),),
    (("organizationalUnitName", "IoT"),),
    (("commonName", "Sensor-7"),),
)
NAME = r"CN=Sensor-7,OU=IoT,O=Acme\, Inc.,C=DE"


def mapped(rules: str, name: str) -> str | None:
    found = (rule.apply(name) for rule in read_rules(rules))
    return next((user for user in found if user), None)


def test_a_subject_is_written_as_kafka_writes_it() -> None:
    """C8: RFC 2253, the most specific part first, commas escaped."""
    assert distinguished_name({"subject": SUBJECT}) == NAME


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", NAME, NAME),
        (r"RULE:^CN=(.*?),.*$/$1/", NAME, "Sensor-7"),
        (r"RULE:^CN=(.*?),.*$/$1/L", NAME, "sensor-7"),
        (r"RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/U", NAME, "IOT-SENSOR-7"),
        (r"RULE:^CN=(.*?),OU=Other.*$/$1/, DEFAULT", NAME, NAME),
        (r"RULE:^UID=(.*?)$/$1/,RULE:^CN=(.*?),.*$/$1/L", NAME, "sensor-7"),
        (r"RULE:^CN=(.*?),OU=Other.*$/$1/", NAME, None),
        (r"RULE:^CN=a\/b$/c\/d/", "CN=a/b", "c/d"),
    ],
)
def test_rules_make_a_user_of_a_name(rules: str, name: str, user: str | None) -> None:
    """A10, C8: Kafka's ssl.principal.mapping.rules."""
    assert mapped(rules, name) == user


@pytest.mark.parametrize("rules", ["RULE:x", "RULE:(/x/", "CN", "DEFAULT DEFAULT", "RULE:a/b/X"])
def test_rules_that_mean_nothing_are_refused(rules: str) -> None:
    with pytest.raises(InvalidSetting):
        TlsSettings(certificate="x", principal_rules=rules).check("kafka.tls")


@pytest.mark.parametrize(
    "settings",
    [
        TlsSettings(key="x"),
        TlsSettings(client_auth="required"),
        TlsSettings(certificate="x", client_auth="optional"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: TlsSettings) -> None:
    with pytest.raises(InvalidSetting):
        settings.check("kafka.tls")


class Files:
    """A certificate and its key on disk."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "node.pem", directory / "node.key"
        self.settings = TlsSettings(certificate=str(self.certificate), key=str(self.key))
        self.issue()

    def issue(self, *, certificate: bool = True, key: bool = True) -> None:
        made = trustme.CA().issue_cert("localhost")
        # A clock that ticks slower than the test must not hide the change.
        later = self.certificate.stat().st_mtime + 1 if self.certificate.exists() else None
        if certificate:
            made.cert_chain_pems[0].write_to_path(self.certificate)
        if key:
            made.private_key_pem.write_to_path(self.key)
        if later is not None:
            for file in (self.certificate, self.key):
                os.utime(file, (later, later))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_new_certificate_is_used_once_its_files_fit(files: Files) -> None:
    """C8: reload without restart; half a change is refused and the old certificate stays."""
    certificates = Certificates(files.settings)
    first = certificates.context
    assert not certificates.reload()
    files.issue(key=False)
    with pytest.raises(InvalidSetting, match="KEY_VALUES_MISMATCH"):
        certificates.reload()
    assert certificates.context is first
    assert not certificates.reload()
    files.issue()
    assert certificates.reload()
    assert certificates.context is not first


@pytest.mark.parametrize("damage", ["missing", "garbage", "encrypted"])
def test_files_that_cannot_be_used_are_refused(files: Files, damage: str) -> None:
    """C8: at the start, by name, and without asking for a password."""
    if damage == "missing":
        files.key.unlink()
    elif damage == "garbage":
        files.certificate.write_text("no certificate")
    else:
        files.key.write_text(ENCRYPTED)
    with pytest.raises(InvalidSetting, match=r"node\.(pem|key)"):
        Certificates(files.settings)


ENCRYPTED = """-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGjMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBCcH1ZAplLkPYkqHgVG
AgIIADAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQ
-----END ENCRYPTED PRIVATE KEY-----
"""


def test_nobody_is_named_without_a_certificate(files: Files) -> None:
    certificates = Certificates(files.settings)
    assert certificates.principal(None) is ANONYMOUS
    assert certificates.principal({}) is ANONYMOUS
    assert certificates.principal({"subject": SUBJECT}).name == NAME
