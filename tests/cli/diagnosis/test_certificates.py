"""The doctor knows a certificate that has ended, ends soon, is for others or has another key."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from chordmq.cli.diagnosis.certificates import certificates
from chordmq.cli.diagnosis.finding import Place
from tests.cli.diagnosis.places import only, place


def issued(directory: Path, *names: str, days: int = 365) -> Place:
    """Return a place whose Kafka listener has a certificate for these names and so many days."""
    end = datetime.now(tz=UTC) + timedelta(days=days)
    start = min(datetime.now(tz=UTC), end) - timedelta(days=1)
    made = trustme.CA().issue_cert(*names, not_before=start, not_after=end)
    made.private_key_and_cert_chain_pem.write_to_path(str(directory / "node.pem"))
    return place(
        f"kafka.tls.certificate={directory}/node.pem",
        "kafka.host=0.0.0.0",
        "kafka.advertised_host=mq.example.org",
    )


@pytest.mark.parametrize(
    ("names", "days", "status", "word"),
    [
        (["mq.example.org"], 365, "ok", "valid until"),
        (["*.example.org"], 365, "ok", "valid until"),
        (["mq.example.org"], -3, "fail", "is valid from"),
        (["mq.example.org"], 10, "warn", "ends on"),
        (["other.example.org"], 365, "fail", "is for other.example.org"),
    ],
)
def test_times_and_names_of_a_certificate_are_checked(
    tmp_path: Path, names: list[str], days: int, status: str, word: str
) -> None:
    """X4: doctor, certificate expired, expiring or of the wrong host."""
    found = only(certificates, issued(tmp_path, *names, days=days))
    assert (found.status, word in found.detail) == (status, True), found


def test_a_certificate_without_its_key_is_found(tmp_path: Path) -> None:
    where = issued(tmp_path, "mq.example.org")
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "node.pem"))
    assert only(certificates, where).status == "fail"
    (tmp_path / "node.pem").unlink()
    assert only(certificates, where).status == "fail"


def test_no_certificate_is_no_finding() -> None:
    assert list(certificates(place())) == []
