"""Who may come in over AMQP, and what they may do there."""

import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pamqp import encode
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.credentials import ExternalCredentials, PlainCredentials
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from chordmq.clock import SystemClock
from tests.cli.command_line import CommandLine
from tests.interop.fortress import PASSWORD, Fortress

SKEW_S = 30
"""By which the clocks of node and issuer may differ."""


class AmqPlain:
    """The mechanism AMQPLAIN, which pika does not have."""

    TYPE = "AMQPLAIN"
    erase_on_connect = False

    def response_for(self, start: Any) -> tuple[str, bytes]:
        """Return the mechanism and the response."""
        table = encode.field_table({"LOGIN": "alice", "PASSWORD": PASSWORD})
        return self.TYPE, table[4:]

    def erase_credentials(self) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    """Give a node whose AMQP clients must log in; the second listener speaks TLS."""
    strong = Fortress(tmp_path_factory.mktemp("fortress"))
    strong.node.start()
    yield strong
    strong.node.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    """Give a node that speaks AMQP over TLS only."""
    strong = Fortress(tmp_path_factory.mktemp("tls"))
    strong.node.settings |= {
        "amqp.tls.certificate": strong.certificate,
        "amqp.tls.key": strong.key,
        "amqp.tls.client_ca": strong.ca,
        "amqp.tls.client_auth": "optional",
        "amqp.tls.principal_rules": "RULE:^CN=([^,]+)(,.*)?$/$1/L,DEFAULT",
    }
    strong.node.start()
    yield strong
    strong.node.close()


def connect(fortress: Fortress, credentials: Any, **more: Any) -> BlockingConnection:
    """Log in."""
    parameters = pika.ConnectionParameters(
        "localhost", fortress.node.amqp_address[1], credentials=credentials, **more
    )
    return BlockingConnection(parameters)


def test_a_password_lets_in(fortress: Fortress) -> None:
    """E4, E13: PLAIN, judged like everywhere else."""
    connect(fortress, PlainCredentials("alice", PASSWORD)).close()


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("guest", "guest"), ("", "")])
def test_wrong_passwords_are_refused_with_the_reason(
    fortress: Fortress, user: str, password: str
) -> None:
    with pytest.raises(Exception, match=r"403|ACCESS_REFUSED|uthentication"):
        connect(fortress, PlainCredentials(user, password))


def test_amqplain_lets_in(fortress: Fortress, monkeypatch: pytest.MonkeyPatch) -> None:
    """E4: the old mechanism of RabbitMQ's."""
    monkeypatch.setattr("pika.credentials.VALID_TYPES", [PlainCredentials, AmqPlain])
    connect(fortress, AmqPlain()).close()


def test_acls_decide_what_a_user_may_do(fortress: Fortress) -> None:
    """E13, C9: queues and exchanges are topics, and so are their permissions."""
    admin = CommandLine(fortress.bootstrap)
    login = ["--user", "admin", "--password", PASSWORD, "--tls-ca", fortress.ca]
    with connect(fortress, PlainCredentials("alice", PASSWORD)) as super_user:
        super_user.channel().queue_declare("public", durable=True)
        super_user.channel().queue_declare("private", durable=True)
    for operation in ("read", "write"):
        rule = ["acls", "add", "User:mallory", "--allow", operation, "--topic", "public"]
        admin.ok(*login, *rule)
    with connect(fortress, PlainCredentials("mallory", PASSWORD)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "public", b"hello")
        assert channel.basic_get("public", auto_ack=True)[2] == b"hello"
        acts: tuple[Callable[[BlockingChannel], Any], ...] = (
            lambda one: one.basic_publish("", "private", b"x"),
            lambda one: one.basic_get("private"),
            lambda one: one.basic_consume("private", lambda *_: None),
            lambda one: one.queue_declare("new", durable=True),
            lambda one: one.queue_delete("public"),
            lambda one: one.queue_bind("public", "amq.fanout"),
        )
        for act in acts:
            refused = connection.channel()
            refused.confirm_delivery()
            with pytest.raises(ChannelClosedByBroker, match="403"):
                act(refused)


def test_tls_and_certificates_let_in(tls: Fortress) -> None:
    """A10, C8: AMQPS with a certificate that names its user (EXTERNAL), and with a password."""
    context = ssl.create_default_context(cafile=tls.ca)
    options = pika.SSLOptions(context, "localhost")
    connect(tls, PlainCredentials("alice", PASSWORD), ssl_options=options).close()
    with pytest.raises(Exception, match=r"403|ACCESS_REFUSED|uthentication"):
        connect(tls, ExternalCredentials(), ssl_options=options)
    context.load_cert_chain(tls.carol, tls.carol_key)
    with connect(tls, ExternalCredentials(), ssl_options=options) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"secret", pika.BasicProperties(user_id="carol"))
        assert channel.basic_get(queue, auto_ack=True)[2] == b"secret"


def test_a_pattern_needs_the_right_to_read_what_it_means(fortress: Fortress) -> None:
    """E13: nobody reads other topics by binding a queue to amq.topic."""
    admin = CommandLine(fortress.bootstrap)
    login = ["--user", "admin", "--password", PASSWORD, "--tls-ca", fortress.ca]
    for operation in ("read", "write", "create"):
        for topic in ("mine*", "amq.topic", "home.mallory"):
            rule = ["acls", "add", "User:mallory", "--allow", operation, "--topic", topic]
            admin.ok(*login, *rule)
    with connect(fortress, PlainCredentials("mallory", PASSWORD)) as connection:
        for pattern in ("#", "*.secret", "home.alice.#", "home", "home.*.door"):
            channel = connection.channel()
            channel.queue_declare("mine", durable=True)
            with pytest.raises(ChannelClosedByBroker, match="403"):
                channel.queue_bind("mine", "amq.topic", pattern)
        channel = connection.channel()
        channel.queue_bind("mine", "amq.topic", "home.mallory.#")
        with pytest.raises(ChannelClosedByBroker, match="403"):
            channel.queue_declare(
                "mine.dead", durable=True, arguments={"x-dead-letter-exchange": "private"}
            )


def test_quotas_make_publishers_and_consumers_wait(fortress: Fortress) -> None:
    """A10, C11: bytes per second of a user count over AMQP as everywhere."""
    admin = CommandLine(fortress.bootstrap)
    login = ["--user", "admin", "--password", PASSWORD, "--tls-ca", fortress.ca]
    with connect(fortress, PlainCredentials("alice", PASSWORD)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("metered", durable=True)
        quota = [*login, "quotas", "set", "--for-user", "alice"]
        admin.ok(*quota, "--set", "producer_byte_rate=100000")
        began = time.monotonic()
        for _ in range(4):
            channel.basic_publish("", "metered", b"x" * 100_000)
        assert time.monotonic() - began > 1
        admin.ok(*quota, "--reset", "producer_byte_rate")


def test_a_signed_token_is_a_password_and_ends_with_its_time(fortress: Fortress) -> None:
    """C10, E13: JWT as password; connection.update-secret renews it, a stranger's does not."""
    now_s = SystemClock().now_ms() / 1000
    token = fortress.issuer.token(now_s, exp=int(now_s) + 7 - SKEW_S)
    with connect(fortress, PlainCredentials("", token)) as connection:
        later = fortress.issuer.token(now_s, exp=int(now_s) + 60)
        connection.update_secret(later, "soon over")
        channel = connection.channel()
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:  # past the end of the first token
            connection.process_data_events(0.2)
        assert channel.queue_declare("", exclusive=True).method.queue
    connection = connect(fortress, PlainCredentials("", fortress.issuer.token(now_s)))
    with pytest.raises(ConnectionClosedByBroker, match="530"):
        connection.update_secret(fortress.issuer.token(now_s, sub="mallory"), "whose?")
    now_s = SystemClock().now_ms() / 1000
    short = fortress.issuer.token(now_s, exp=int(now_s) + 7 - SKEW_S)
    connection = connect(fortress, PlainCredentials("", short))
    with pytest.raises(ConnectionClosedByBroker, match="expired"):
        connection.process_data_events(60)
