"""A node with every lock there is: TLS, client certificates, passwords and tokens."""

import datetime
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from tests.broker.security.issuer import AUDIENCE, ISSUER, Issuer
from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode

PASSWORD = "correct-horse-battery"
USERS = ("alice", "mallory", "admin")
SUPER_USERS = "User:alice;User:carol"


class Fortress:
    """One node, the files that open it, and files that must not.

    Its authority signs the node and carol; another authority signs nobody who is known here.
    """

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.issuer = Issuer()
        self.authority = trustme.CA()
        self.ca = self._file("ca.pem", self.authority.cert_pem.bytes())
        node = self.authority.issue_cert("localhost", "127.0.0.1")
        self.certificate, self.key = self.issue("node", node)
        self.carol, self.carol_key = self.issue(
            "carol", self.authority.issue_cert("carol.test", common_name="carol")
        )
        stranger = trustme.CA()
        self.other_ca = self._file("other-ca.pem", stranger.cert_pem.bytes())
        self.eve, self.eve_key = self.issue(
            "eve", stranger.issue_cert("eve.test", common_name="carol")
        )
        self.expired, self.expired_key = self._expired("carol")
        jwks = self._file("jwks.json", self.issuer.jwks().encode())
        self.node = RunningNode(
            directory,
            {
                "auth.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
                "auth.super_users": SUPER_USERS,
                "auth.oauth.jwks": jwks,
                "auth.oauth.issuer": ISSUER,
                "auth.oauth.audience": AUDIENCE,
                "kafka.tls.certificate": self.certificate,
                "kafka.tls.key": self.key,
                "kafka.tls.client_ca": self.ca,
                "kafka.tls.client_auth": "optional",
                "kafka.tls.principal_rules": "RULE:^CN=([^,]+)(,.*)?$/$1/L,DEFAULT",
                **settings,
            },
        )
        for name in USERS:
            command = ["users", "add", name, "--new-password", PASSWORD]
            command += [
                "--data-dir",
                str(self.node.data),
                *(["--admin"] if name == "admin" else []),
            ]
            CommandLine("").ok(*command)

    @property
    def bootstrap(self) -> str:
        """Return the address, by the name in the certificate."""
        return f"localhost:{self.node.address[1]}"

    def _file(self, name: str, data: bytes) -> str:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return str(path)

    def issue(self, name: str, issued: trustme.LeafCert) -> tuple[str, str]:
        """Write a certificate and its key, and both in one file; return the two paths."""
        chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        # PKCS 8, which is what Java reads.
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._file(f"{name}-both.pem", secret + chain)
        return self._file(f"{name}.pem", chain), self._file(f"{name}.key", secret)

    def _expired(self, common_name: str) -> tuple[str, str]:
        """Return a certificate of the right authority that has ended."""
        ca_key = load_pem_private_key(self.authority.private_key_pem.bytes(), None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
        ca = x509.load_pem_x509_certificate(self.authority.cert_pem.bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        end = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
            .issuer_name(ca.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - datetime.timedelta(days=1))
            .not_valid_after(end)
            .sign(ca_key, hashes.SHA256())
        )
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        pem = certificate.public_bytes(Encoding.PEM)
        return self._file("expired.pem", pem), self._file("expired.key", secret)
