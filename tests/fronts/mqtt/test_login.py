"""Who may connect, publish and subscribe: passwords, tokens, certificates, SCRAM, rules."""

import ssl
import time
from collections.abc import Iterator

import pytest
from scramp import ScramClient

from chordmq.codecs.mqtt.properties import AUTH, Properties, read_properties, write_properties
from tests.fronts.mqtt.client import Client, HungUp, Will, packet
from tests.interop.fortress import PASSWORD, Fortress
from tests.running_node import free_port

RULES = (
    "allow * all home/%u/#; allow * publish devices/%c/up; allow * subscribe devices/%c/down;"
    "allow mallory all open/#; deny mallory all open/closed/#; allow * subscribe $SYS/#"
)


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    """Give a node that lets nobody in who does not prove who they are."""
    settings = {"mqtt.tls_port": str(free_port()), "mqtt.acl": RULES}
    strong = Fortress(tmp_path_factory.mktemp("fortress"), **settings)
    strong.node.settings |= {
        "mqtt.tls.certificate": strong.certificate,
        "mqtt.tls.key": strong.key,
        "mqtt.tls.client_ca": strong.ca,
        "mqtt.tls.client_auth": "optional",
        "mqtt.tls.principal_rules": "RULE:^CN=([^,]+)(,.*)?$/$1/L,DEFAULT",
    }
    strong.node.start()
    yield strong
    strong.node.close()


def now_s() -> float:
    return time.time_ns() / 1e9


def plain(fortress: Fortress, version: int = 5) -> Client:
    return Client(fortress.node.mqtt_address, version)


def secured(fortress: Fortress, certificate: tuple[str, str] | None = None) -> Client:
    context = ssl.create_default_context(cafile=fortress.ca)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    address = ("localhost", int(fortress.node.settings["mqtt.tls_port"]))
    return Client(address, tls=context)


def let_in(fortress: Fortress, user: str = "mallory", client_id: str = "") -> Client:
    client = plain(fortress)
    assert client.connect(client_id, user=user, password=PASSWORD.encode()).code == 0
    return client


@pytest.mark.parametrize(
    ("version", "user", "password", "code"),
    [
        (5, "mallory", PASSWORD, 0),
        (4, "mallory", PASSWORD, 0),
        (5, "mallory", "wrong", 0x86),
        (4, "mallory", "wrong", 4),
        (5, "nobody", PASSWORD, 0x86),
        (5, None, None, 0x87),
        (4, None, None, 5),
    ],
)
def test_passwords(
    fortress: Fortress, version: int, user: str | None, password: str | None, code: int
) -> None:
    """E3, E13: user and password, with the codes of each version."""
    client = plain(fortress, version)
    secret = password.encode() if password else None
    assert client.connect("", user=user, password=secret).code == code


def test_a_signed_token_is_a_password(fortress: Fortress) -> None:
    """E3, C10: a JWT of the issuer; an old one is refused."""
    good = fortress.issuer.token(now_s()).encode()
    old = fortress.issuer.token(now_s() - 3600).encode()
    assert plain(fortress).connect("", user="whoever", password=good).code == 0
    assert plain(fortress).connect("", password=good).code == 0
    assert plain(fortress).connect("", user="whoever", password=old).code == 0x86


def test_a_certificate_names_a_user(fortress: Fortress) -> None:
    """E3, C8: TLS on its own port; a stranger's certificate ends the handshake."""
    client = secured(fortress, (fortress.carol, fortress.carol_key))
    assert client.connect("").code == 0
    assert client.publish("carols/own", b"x", 1) == 0
    assert secured(fortress).connect("").code == 0x87
    with pytest.raises((ssl.SSLError, ConnectionError, HungUp)):
        secured(fortress, (fortress.eve, fortress.eve_key)).connect("")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_as_enhanced_authentication(fortress: Fortress, mechanism: str) -> None:
    """E3: MQTT-4.12: both sides prove that they know the password, at first and again later."""
    client = plain(fortress)
    scram = ScramClient([mechanism], "mallory", PASSWORD)
    first = _login(mechanism, scram.get_client_first().encode())
    client.ask("", properties=first)
    scram.set_server_first(_challenge(client, mechanism))
    client.send(_auth(0x18, _login(mechanism, scram.get_client_final().encode())))
    answer = client.connack()
    assert answer.code == 0
    assert answer.properties.authentication_data is not None
    scram.set_server_final(answer.properties.authentication_data.decode())

    again = ScramClient([mechanism], "mallory", PASSWORD)
    client.send(_auth(0x19, _login(mechanism, again.get_client_first().encode())))
    again.set_server_first(_challenge(client, mechanism))
    client.send(_auth(0x18, _login(mechanism, again.get_client_final().encode())))
    body = client.expect(AUTH)
    assert body[0] == 0
    client.ping()


def test_a_wrong_password_fails_scram(fortress: Fortress) -> None:
    client = plain(fortress)
    scram = ScramClient(["SCRAM-SHA-256"], "mallory", "wrong")
    client.ask("", properties=_login("SCRAM-SHA-256", scram.get_client_first().encode()))
    scram.set_server_first(_challenge(client, "SCRAM-SHA-256"))
    client.send(_auth(0x18, _login("SCRAM-SHA-256", scram.get_client_final().encode())))
    assert client.connack().code == 0x87


def test_an_unknown_method_is_refused(fortress: Fortress) -> None:
    """E3: MQTT-4.12.0-1."""
    answer = plain(fortress).connect("", properties=_login("KERBEROS", b""))
    assert answer.code == 0x8C


def test_auth_without_a_method_is_an_error(fortress: Fortress) -> None:
    """E3: MQTT-4.12.0-6."""
    client = let_in(fortress)
    client.send(_auth(0x19, _login("SCRAM-SHA-256", b"")))
    assert client.ending() == 0x82


def _login(method: str, data: bytes) -> Properties:
    return Properties(authentication_method=method, authentication_data=data)


def _auth(reason: int, properties: Properties) -> bytes:
    return packet(0xF0, bytes((reason,)) + write_properties(properties))


def _challenge(client: Client, mechanism: str) -> str:
    body = client.expect(AUTH)
    assert body[0] == 0x18
    properties, _ = read_properties(body, 1, len(body), AUTH)
    assert properties.authentication_method == mechanism
    assert properties.authentication_data is not None
    return properties.authentication_data.decode()


def test_rules_by_filter_with_user_and_client(fortress: Fortress) -> None:
    """E3, E13: %u and %c; what no rule allows is left to the ACL of the log topic: denied."""
    client = let_in(fortress, client_id="c1")
    assert client.publish("home/mallory/lamp", b"on", 1) == 0
    assert client.publish("home/alice/lamp", b"on", 1) == 0x87
    assert client.publish("devices/c1/up", b"x", 1) == 0
    assert client.publish("devices/c2/up", b"x", 1) == 0x87
    assert client.publish("devices/c1/down", b"x", 1) == 0x87
    wanted = [
        "home/mallory/#",
        "home/+/#",
        "#",
        "devices/c1/down",
        "devices/+/down",
        "home/alice/x",
    ]
    assert client.subscribe(*wanted, qos=1) == [1, 0x87, 0x87, 1, 0x87, 0x87]
    assert client.subscribe("$share/g/home/alice/#", "$queue/home", "$stream/home.alice") == [
        0x87, 0x87, 0x87,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "topic", ["home/mallory", "home//mallory/x", "home/mallory/../alice", "/home/mallory/x", "home"]
)
def test_names_do_not_escape(fortress: Fortress, topic: str) -> None:
    """E13: levels are compared as they are; there is no way up or around."""
    client = let_in(fortress)
    is_own = topic.startswith("home/mallory")
    assert client.publish(topic, b"x", 1) == (0 if is_own else 0x87)


@pytest.mark.parametrize("client_id", ["+", "#", "c1/up", "a/b", "c1/#"])
def test_a_client_id_does_not_widen_a_rule(fortress: Fortress, client_id: str) -> None:
    """E13: %c with a wildcard or a level inside matches nothing."""
    client = let_in(fortress, client_id=client_id)
    assert client.publish("devices/c1/up", b"x", 1) == 0x87
    assert client.subscribe(f"devices/{client_id}/down") in ([0x87], [0x8F])


def test_what_is_denied_beats_what_is_allowed(fortress: Fortress) -> None:
    client = let_in(fortress)
    assert client.publish("open/a", b"", 1) == 0
    assert client.publish("open/closed/a", b"", 1) == 0x87
    assert client.subscribe("open/a/#", "open/#", "open/closed/a") == [0, 0, 0x87]
    alice = let_in(fortress, "alice")
    alice.publish("open/closed/a", b"secret", 1, retain=True)
    alice.publish("open/b", b"open", 1)
    assert client.message().payload in (b"", b"open")
    assert client.is_quiet()
    late = let_in(fortress)
    late.subscribe("open/#", "$share/g/open/#")
    assert late.is_quiet()


def test_a_refused_message_ends_a_connection_of_3_1_1(fortress: Fortress) -> None:
    """E3: MQTT-3.3.5-2 of 3.1.1: there is no other way to say so."""
    client = plain(fortress, 4)
    client.connect("", user="mallory", password=PASSWORD.encode())
    client.post("home/alice/x", b"x", 1)
    assert client.wait_for_end() == []
    client = plain(fortress, 4)
    client.connect("", user="mallory", password=PASSWORD.encode())
    assert client.subscribe("home/alice/x", qos=1) == [0x80]


def test_a_will_needs_the_same_rights(fortress: Fortress) -> None:
    """E13: it is not published where its client could not publish."""
    alice = let_in(fortress, "alice")
    alice.subscribe("home/#", qos=1)
    for topic in ("home/alice/x", "home/mallory/x"):
        client = plain(fortress)
        client.connect("", user="mallory", password=PASSWORD.encode(), will=Will(topic, b"gone"))
        client.cut()
    assert alice.message().topic == "home/mallory/x"


def test_a_session_belongs_to_its_user(fortress: Fortress) -> None:
    """E13: another user with the same client id begins anew."""
    kept = Properties(session_expiry_s=60)
    client = plain(fortress)
    client.connect("same", user="mallory", password=PASSWORD.encode(), properties=kept)
    other = plain(fortress)
    answer = other.connect("same", clean=False, user="alice", password=PASSWORD.encode())
    assert (answer.code, answer.has_session) == (0, False)


def test_a_client_is_told_what_it_may_do(fortress: Fortress) -> None:
    """E3: what both sides agree on."""
    client = plain(fortress)
    answer = client.connect("x", user="mallory", password=PASSWORD.encode())
    assert answer.properties.receive_maximum == 100
    assert answer.properties.topic_alias_maximum == 32
