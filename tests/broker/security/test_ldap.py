"""LDAP behind PLAIN, with a real OpenLDAP server."""

import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from chordmq.broker.security.auth_settings import AuthSettings, LdapSettings
from chordmq.broker.security.ldap import Directory
from chordmq.broker.security.principal import Principal
from chordmq.clock import ManualClock
from chordmq.errors import AuthenticationFailed
from tests.broker.security.accounts import authenticator_at
from tests.interop.program import installed
from tests.running_node import free_port

SCHEMAS = Path("/etc/ldap/schema")
HERE = "10.0.0.1"
PEOPLE, GROUPS = "ou=people,dc=example,dc=org", "ou=groups,dc=example,dc=org"
CONFIGURATION = """
include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
disallow bind_anon
TLSCertificateFile {directory}/node.pem
TLSCertificateKeyFile {directory}/node.key
pidfile {directory}/slapd.pid
database mdb
suffix "dc=example,dc=org"
directory {directory}/db
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
"""
ENTRIES = """
dn: dc=example,dc=org
objectClass: domain
dc: example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: uid=alice,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: alice
cn: Alice
sn: A
userPassword: s3cret

dn: uid=service,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: service
cn: Service
sn: S
userPassword: service-pw

dn: cn=readers,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: readers
member: uid=alice,ou=people,dc=example,dc=org

dn: cn=others,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: others
member: uid=service,ou=people,dc=example,dc=org
"""


class Slapd:
    """A directory with two people and two groups, on ports of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.tls_port = free_port(), free_port()
        authority = trustme.CA()
        authority.cert_pem.write_to_path(directory / "ca.pem")
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        certificate.private_key_pem.write_to_path(directory / "node.key")
        certificate.cert_chain_pems[0].write_to_path(directory / "node.pem")
        (directory / "db").mkdir()
        configuration = CONFIGURATION.format(schemas=SCHEMAS, directory=directory)
        self.file = directory / "slapd.conf"
        self.file.write_text(configuration)
        (directory / "entries.ldif").write_text(ENTRIES.strip() + "\n")
        subprocess.run(
            [_program("slapadd"), "-f", self.file, "-l", directory / "entries.ldif"],
            check=True, capture_output=True,
        )  # fmt: skip
        places = f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.tls_port}"
        self.process = subprocess.Popen(
            [_program("slapd"), "-f", self.file, "-h", places, "-d", "0"]
        )

    def wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.tls_port)).close()
                return
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "slapd did not start"
                time.sleep(0.02)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def _program(name: str) -> str:
    found = Path("/usr/sbin") / name
    return str(found) if found.exists() else installed(name)


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    server = Slapd(tmp_path_factory.mktemp("slapd"))
    try:
        server.wait()
        yield server
    finally:
        server.close()


@pytest.fixture
def settings(slapd: Slapd) -> LdapSettings:
    return LdapSettings(
        url=f"ldap://127.0.0.1:{slapd.port}",
        bind_template="uid={name}," + PEOPLE,
        group_base=GROUPS,
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def check(settings: LdapSettings, name: str, password: str) -> Principal:
    directory = Directory(settings, ManualClock())
    try:
        return await directory.check(name, password)
    finally:
        directory.close()


async def test_the_directory_decides_and_names_the_groups(settings: LdapSettings) -> None:
    """C10, A10: LDAP behind PLAIN; groups come along, for roles."""
    principal = await check(settings, "alice", "s3cret")
    assert principal == Principal("alice", frozenset({"readers"}))


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wrong"),
        ("nobody", "s3cret"),
        ("alice", ""),
        ("*", "s3cret"),
        ("alice,ou=people", "s3cret"),
        ("alice)(uid=*", "s3cret"),
        ("", "s3cret"),
        ("alice\0", "s3cret"),
    ],
)
@pytest.mark.parametrize("searches", [False, True])
async def test_wrong_and_cunning_names_are_refused(
    settings: LdapSettings, name: str, password: str, searches: bool
) -> None:
    """C10: nothing in a name becomes part of a question; an empty password is no anonymous bind."""
    if searches:
        settings = searching(settings)
    with pytest.raises(AuthenticationFailed):
        await check(settings, name, password)


def searching(settings: LdapSettings) -> LdapSettings:
    return replace(
        settings,
        bind_template="",
        search_base=PEOPLE,
        search_user=f"uid=service,{PEOPLE}",
        search_password="service-pw",
    )


async def test_the_user_is_found_by_a_service_account(settings: LdapSettings) -> None:
    """C10: search, then bind, as Active Directory wants it."""
    principal = await check(searching(settings), "alice", "s3cret")
    assert principal.groups == {"readers"}
    broken = replace(searching(settings), search_password="wrong")
    with pytest.raises(AuthenticationFailed, match="service account"):
        await check(broken, "alice", "s3cret")


@pytest.mark.parametrize("scheme", ["ldaps", "starttls"])
async def test_the_certificate_of_the_directory_is_checked(
    slapd: Slapd, settings: LdapSettings, scheme: str
) -> None:
    """C8, C10: ldaps and StartTLS, and never without the right authority."""
    if scheme == "ldaps":
        settings = replace(settings, url=f"ldaps://127.0.0.1:{slapd.tls_port}")
    else:
        settings = replace(settings, start_tls=True)
    trusted = replace(settings, ca=str(slapd.directory / "ca.pem"))
    assert (await check(trusted, "alice", "s3cret")).name == "alice"
    with pytest.raises(AuthenticationFailed, match="does not answer"):
        await check(settings, "alice", "s3cret")


async def test_a_right_password_is_remembered_for_a_while(
    settings: LdapSettings, clock: ManualClock
) -> None:
    """C10: a positive cache, which never takes a wrong password."""
    directory = Directory(settings, clock)
    await directory.check("alice", "s3cret")
    directory.close()  # whoever asks the directory now gets no answer
    assert (await directory.check("alice", "s3cret")).name == "alice"
    for password in ("wrong", "s3cret"):
        if password == "s3cret":
            clock.advance(round(settings.cache_s * 1000))
        with pytest.raises(RuntimeError):
            await directory.check("alice", password)


async def test_a_directory_that_is_away_refuses_in_time(settings: LdapSettings) -> None:
    """C10: time-outs."""
    with pytest.raises(AuthenticationFailed, match="does not answer"):
        await check(replace(settings, url="ldap://127.0.0.1:1", timeout_s=1), "alice", "s3cret")


async def test_the_nodes_own_users_never_reach_the_directory(
    tmp_path: Path, settings: LdapSettings
) -> None:
    """C10: PLAIN asks the directory for whom the node does not know."""
    with authenticator_at(tmp_path, AuthSettings(mechanisms="PLAIN", ldap=settings)) as judge:
        await judge.users.add("alice", "of the node")
        await judge.check_password("alice", "of the node", HERE)
        with pytest.raises(AuthenticationFailed):
            await judge.check_password("alice", "s3cret", HERE)
        login = await judge.check_password("service", "service-pw", HERE)
        assert login.principal == Principal("service", frozenset({"others"}))
