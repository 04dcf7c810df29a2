"""Makes certificates for development and small sites: an authority, nodes, clients."""

import datetime
import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordmq.cli.exits import EXIT_REFUSED
from chordmq.cli.output import fail, say

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_DAYS, DAYS = 3650, 365
CLOCK_SKEW = datetime.timedelta(minutes=5)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Make an authority of your own, and certificates for nodes and clients.

    \b
      chordmq certs init --host broker.example.org
      chordmq certs client alice
      chordmq serve --set kafka.tls.certificate=certs/node.pem --set kafka.tls.key=certs/node.key

    Keep certs/ca.key to yourself: whoever has it can be anybody.
    """,
)

Directory = Annotated[
    Path, typer.Option("--dir", metavar="DIRECTORY", help="Where the files are kept.")
]
Days = Annotated[int, typer.Option("--days", min=1, help="How long it is valid.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="NAME", help="Name or address of the node; may be repeated."),
]


@app.command()
def init(directory: Directory = Path("certs"), hosts: Hosts = None, days: Days = DAYS) -> None:
    """Make an authority (ca.pem, ca.key) unless there is one, and a certificate for a node.

    \b
      chordmq certs init --host mq.example.org
    """
    if not (directory / "ca.key").exists():
        directory.mkdir(parents=True, exist_ok=True)
        _make_authority(directory)
        say(f"made {directory / 'ca.pem'}")
    node(directory, "node", hosts, days)


@app.command()
def node(
    directory: Directory = Path("certs"),
    name: Annotated[str, typer.Option("--name", help="Name of the files.")] = "node",
    hosts: Hosts = None,
    days: Days = DAYS,
) -> None:
    """Make a certificate for a node, in place of the one before it; localhost is always in it.

    \b
      chordmq certs node --host mq2.example.org
    """
    names = list(dict.fromkeys([*(hosts or []), "localhost", "127.0.0.1", "::1"]))
    _issue(directory, name, names[0], names, days)


@app.command()
def client(
    user: Annotated[str, typer.Argument(metavar="USER", help="Whom the certificate names.")],
    directory: Directory = Path("certs"),
    days: Days = DAYS,
) -> None:
    """Make a certificate that says who a client is: its subject is CN=USER.

    \b
      chordmq certs client alice
    """
    _issue(directory, user, user, [], days)


def _make_authority(directory: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("ChordMQ development authority")
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _begun(name, name, key, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    _write(directory / "ca", key, _signed(certificate, key))


def _issue(directory: Path, file: str, subject: str, names: list[str], days: int) -> None:
    """Make a key and a certificate; with names it is a node's, without a client's."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    if Path(file).name != file or file in ("ca", ""):
        fail(f"{file!r} cannot be the name of a file here", EXIT_REFUSED)
    try:
        ca = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
        ca_key = load_pem_private_key((directory / "ca.key").read_bytes(), None)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}; run `chordmq certs init` first", EXIT_REFUSED)
    assert isinstance(ca_key, EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    # A node is a client of other nodes as well.
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if names:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    certificate = (
        _begun(_name(subject), ca.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        certificate = certificate.add_extension(alternatives, critical=False)
    _write(directory / file, key, _signed(certificate, ca_key))
    say(f"made {directory / file}.pem and its key")


def _begun(
    subject: "x509.Name", issuer: "x509.Name", key: "EllipticCurvePrivateKey", days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(
    builder: "x509.CertificateBuilder", key: "EllipticCurvePrivateKey"
) -> "x509.Certificate":
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(text: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(path: Path, key: "EllipticCurvePrivateKey", certificate: "x509.Certificate") -> None:
    """Put the key where only this user can read it, and each file in place of the old at once."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for suffix, data, mode in (
        (".key", secret, 0o600),
        (".pem", certificate.public_bytes(Encoding.PEM), 0o644),
    ):
        file, new = Path(f"{path}{suffix}"), Path(f"{path}{suffix}.new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
        new.replace(file)
