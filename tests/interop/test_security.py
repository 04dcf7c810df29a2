"""Every mechanism and every refusal, with unmodified clients."""

import asyncio
import gc
import logging
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.errors import KafkaError as AsyncKafkaError
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from chordmq.clock import SystemClock
from tests.interop.fortress import PASSWORD, Fortress
from tests.interop.program import built, installed, run
from tests.interop.test_java import CLASSES, LIBRARIES, OPTIONS

PASSWORDS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
DEADLINE_S = 60.0

# Clients in Python leave what a refused login had opened to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"),
    # aiokafka does not wait for the goodbye of a node that has refused it.
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed AIOKafkaProducer:ResourceWarning"),
]


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    fortress = Fortress(tmp_path_factory.mktemp("fortress"))
    try:
        fortress.node.start()
        yield fortress
    finally:
        fortress.node.close()


def good_token(fortress: Fortress, **claims: Any) -> str:
    return fortress.issuer.token(SystemClock().now_ms() / 1000, **claims)


def who(password: str) -> str:
    """Return who logs in; wrong passwords are tried on a user whom no other test needs."""
    return "alice" if password == PASSWORD else "mallory"


# librdkafka


def librdkafka(fortress: Fortress, mechanism: str, **settings: Any) -> dict[str, Any]:
    common = {
        "bootstrap.servers": fortress.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": fortress.ca,
        "sasl.mechanism": mechanism,
        "message.timeout.ms": 60_000,
        "log_level": 0,
    }
    if mechanism in PASSWORDS:
        common |= {"sasl.username": "alice", "sasl.password": PASSWORD}
    return common | settings


def deliver(settings: dict[str, Any], topic: str) -> list[int]:
    """Produce one message; return the codes of the errors met, none if it was delivered."""
    met: list[int] = []
    ended: list[KafkaError | None] = []
    producer = Producer({**settings, "error_cb": lambda error: met.append(error.code())})
    producer.produce(topic, b"x", on_delivery=lambda error, _: ended.append(error))
    deadline = time.monotonic() + DEADLINE_S
    while not ended and not met and time.monotonic() < deadline:
        producer.poll(0.1)
    if ended == [None]:
        return []
    producer.purge()
    producer.flush(1)
    return [*met, *(error.code() for error in ended if error is not None)]


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_librdkafka_logs_in_with_a_password(fortress: Fortress, name: str, mechanism: str) -> None:
    """C8, C10: SASL over TLS."""
    assert deliver(librdkafka(fortress, mechanism), name) == []


@pytest.mark.parametrize("mechanism", PASSWORDS)
@pytest.mark.parametrize("who", [("mallory", "wrong"), ("nobody", PASSWORD)])
def test_librdkafka_is_told_that_the_login_failed(
    fortress: Fortress, name: str, mechanism: str, who: tuple[str, str]
) -> None:
    """C10: wrong password and unknown user alike."""
    given = {"sasl.username": who[0], "sasl.password": who[1]}
    errors = deliver(librdkafka(fortress, mechanism, **given), name)
    assert KafkaError._AUTHENTICATION in errors


@pytest.mark.parametrize(
    ("claims", "is_good"),
    [({}, True), ({"exp": 1}, False), ({"aud": "others"}, False), ({"iss": "x"}, False)],
    ids=["good", "expired", "wrong audience", "wrong issuer"],
)
def test_librdkafka_logs_in_with_a_token(
    fortress: Fortress, name: str, claims: dict[str, Any], is_good: bool
) -> None:
    """C10: OAUTHBEARER; an expired token and one for others are refused."""

    def token(_: str) -> tuple[str, float]:
        return good_token(fortress, **claims), SystemClock().now_ms() / 1000 + 300

    errors = deliver(librdkafka(fortress, "OAUTHBEARER", oauth_cb=token), name)
    if is_good:
        assert errors == []
    else:
        assert KafkaError._AUTHENTICATION in errors


@pytest.mark.parametrize(
    ("certificate", "ca", "is_good"),
    [
        ("carol", "ca", True),
        ("eve", "ca", False),
        ("expired", "ca", False),
        ("carol", "other-ca", False),
    ],
    ids=["good", "unknown authority", "expired", "node not trusted"],
)
def test_librdkafka_is_known_by_its_certificate(
    fortress: Fortress, name: str, certificate: str, ca: str, is_good: bool
) -> None:
    """A10, C8: mutual TLS; the user is the certificate's common name, by rule."""
    directory = fortress.directory
    settings = {
        "bootstrap.servers": fortress.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(directory / f"{ca}.pem"),
        "ssl.certificate.location": str(directory / f"{certificate}.pem"),
        "ssl.key.location": str(directory / f"{certificate}.key"),
        "message.timeout.ms": 60_000,
        "log_level": 0,
    }
    errors = deliver(settings, name)
    assert (errors == []) is is_good, errors


def test_a_client_without_tls_or_without_login_is_refused(fortress: Fortress, name: str) -> None:
    """C8: plaintext on a TLS port, and TLS without a login; others are served meanwhile."""
    plain = {"bootstrap.servers": fortress.bootstrap, "message.timeout.ms": 1500, "log_level": 0}
    assert deliver(plain, name) != []
    tls = {**plain, "security.protocol": "SSL", "ssl.ca.location": fortress.ca}
    assert deliver(tls, name) != []
    assert deliver(librdkafka(fortress, "SCRAM-SHA-512"), name) == []


def test_librdkafka_manages_scram_credentials(fortress: Fortress, name: str) -> None:
    """C10: Alter- and DescribeUserScramCredentials (KIP-554), effective at once."""
    admin: Any = AdminClient(librdkafka(fortress, "SCRAM-SHA-512"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    change = UserScramCredentialUpsertion(name, info, b"a password of its own")
    admin.alter_user_scram_credentials([change])[name].result(DEADLINE_S)
    (found,) = (
        admin.describe_user_scram_credentials([name])[name]
        .result(DEADLINE_S)
        .scram_credential_infos
    )
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_256, 8192)
    given = {"sasl.username": name, "sasl.password": "a password of its own"}
    client = AdminClient(librdkafka(fortress, "SCRAM-SHA-256", **given))
    assert client.list_topics(timeout=DEADLINE_S).brokers
    gone = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([gone])[name].result(DEADLINE_S)
    assert KafkaError._AUTHENTICATION in deliver(
        librdkafka(fortress, "SCRAM-SHA-256", **given), name
    )


# kcat


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_kcat_logs_in(fortress: Fortress, name: str, mechanism: str) -> None:
    """C8, C10: librdkafka of Debian."""
    options = librdkafka(fortress, mechanism)
    del options["message.timeout.ms"]
    command: list[str | Path] = [installed("kcat")]
    for key, value in options.items():
        command += ["-X", f"{key}={value}"]
    run([*command, "-P", "-t", name], given=b"hello\n")
    assert run([*command, "-C", "-t", name, "-e", "-q", "-o", "beginning"]) == b"hello\n"


# kafka-python


@pytest.fixture
def collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Let the client's sockets go while the warning about them is still ignored."""
    # Kept log records would keep the exceptions in them, and those the sockets.
    for library in ("kafka", "aiokafka"):
        caplog.set_level(logging.CRITICAL + 1, library)
    yield
    gc.collect()


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Gives kafka-python its token."""

    def __init__(self, text: str) -> None:
        self.text = text

    def token(self) -> str:
        return self.text


def kafka_python(fortress: Fortress, mechanism: str, password: str, token: str) -> dict[str, Any]:
    # A refused one asks again until its time is over.
    patience_ms = 60_000 if password == PASSWORD else 2500
    settings = {
        "bootstrap_servers": fortress.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": fortress.ca,
        "sasl_mechanism": mechanism,
        "max_block_ms": patience_ms,
        "bootstrap_timeout_ms": patience_ms,
    }
    if mechanism == "OAUTHBEARER":
        return {**settings, "sasl_oauth_token_provider": Tokens(token)}
    return {**settings, "sasl_plain_username": who(password), "sasl_plain_password": password}


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("mechanism", [*PASSWORDS, "OAUTHBEARER"])
def test_kafka_python_logs_in_and_is_refused(fortress: Fortress, name: str, mechanism: str) -> None:
    """C8, C10: and a wrong password, or an expired token, is refused."""
    good = kafka_python(fortress, mechanism, PASSWORD, good_token(fortress))
    with closing(KafkaProducer(**good)) as producer:
        producer.send(name, b"x").get(DEADLINE_S)
    bad = kafka_python(fortress, mechanism, "wrong", good_token(fortress, exp=1))
    with pytest.raises(PythonKafkaError), closing(KafkaProducer(**bad)) as producer:
        producer.send(name, b"x").get(DEADLINE_S)


# aiokafka


class AsyncTokens(AsyncTokenProvider):  # type: ignore[misc]
    """Gives aiokafka its token."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def token(self) -> str:
        return self.text


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("mechanism", [*PASSWORDS, "OAUTHBEARER"])
async def test_aiokafka_logs_in_and_is_refused(
    fortress: Fortress, name: str, mechanism: str
) -> None:
    """C8, C10: a client that speaks SaslHandshake 0 or 1 by the versions it finds."""
    context = ssl.create_default_context(cafile=fortress.ca)

    def producer(password: str, token: str) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=fortress.bootstrap,
            security_protocol="SASL_SSL",
            ssl_context=context,
            sasl_mechanism=mechanism,
            sasl_plain_username=who(password) if mechanism in PASSWORDS else None,
            sasl_plain_password=password if mechanism in PASSWORDS else None,
            sasl_oauth_token_provider=AsyncTokens(token),
        )

    async with producer(PASSWORD, good_token(fortress)) as client:
        await asyncio.wait_for(client.send_and_wait(name, b"x"), DEADLINE_S)
    refused = producer("wrong", good_token(fortress, aud="others"))
    with pytest.raises(AsyncKafkaError):
        await asyncio.wait_for(refused.start(), DEADLINE_S)
    await refused.stop()


# Java


def jaas(module: str, **options: str) -> str:
    pairs = " ".join(f'{key}="{value}"' for key, value in options.items())
    return f"org.apache.kafka.common.security.{module} required {pairs};"


def java_files(fortress: Fortress, directory: Path, topic: str) -> dict[str, str]:
    """Write a file of client settings for each case; return what each must come to."""
    sasl = {
        "bootstrap.servers": fortress.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": fortress.ca,
        "default.api.timeout.ms": "60000",
        "request.timeout.ms": "30000",
        "max.block.ms": "60000",
        "group.id": topic,
    }
    scram = {**sasl, "sasl.mechanism": "SCRAM-SHA-512"}
    by_password = {
        "sasl.jaas.config": jaas("scram.ScramLoginModule", username="alice", password=PASSWORD)
    }
    wrong = {"sasl.jaas.config": jaas("scram.ScramLoginModule", username="mallory", password="x")}
    plain = jaas("plain.PlainLoginModule", username="alice", password=PASSWORD)
    bearer = {
        **sasl,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": "SecurityCheck$Tokens",
    }
    mutual = {**sasl, "security.protocol": "SSL", "ssl.keystore.type": "PEM"}
    both = str(fortress.directory / "carol-both.pem")
    eves = str(fortress.directory / "eve-both.pem")

    def token(**claims: Any) -> dict[str, str]:
        text = good_token(fortress, **claims)
        return {"sasl.jaas.config": jaas("oauthbearer.OAuthBearerLoginModule", token=text)}

    cases = {
        "scram-512": ("ok", {**scram, **by_password}),
        "scram-256": ("ok", {**scram, **by_password, "sasl.mechanism": "SCRAM-SHA-256"}),
        "plain": ("ok", {**sasl, "sasl.mechanism": "PLAIN", "sasl.jaas.config": plain}),
        "token": ("ok", {**bearer, **token()}),
        "certificate": ("ok", {**mutual, "ssl.keystore.location": both}),
        "wrong-password": ("SaslAuthenticationException", {**scram, **wrong}),
        "expired-token": ("SaslAuthenticationException", {**bearer, **token(exp=1)}),
        "other-audience": ("SaslAuthenticationException", {**bearer, **token(aud="others")}),
        "unknown-ca": (
            "SslAuthenticationException",
            {**scram, **by_password, "ssl.truststore.location": fortress.other_ca},
        ),
        # asyncio sends no alert with its refusal: the client sees the connection end, again and
        # again, and the node's log has the reason.
        "stranger": (
            "TimeoutException",
            {
                **mutual,
                "ssl.keystore.location": eves,
                "default.api.timeout.ms": "2000",
                "request.timeout.ms": "2000",
            },
        ),
    }
    for case, (_, settings) in cases.items():
        lines = {**settings, "check.topic": f"{topic}-{case}"}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (directory / case).write_text(text)
    return {case: expected for case, (expected, _) in cases.items()}


def java(files: list[Path]) -> dict[str, str]:
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    output = run([installed("java"), *OPTIONS, "-cp", classpath, "SecurityCheck", *files])
    return dict(line.split() for line in output.decode().splitlines())


def test_the_java_client_logs_in_and_is_refused(
    fortress: Fortress, name: str, tmp_path: Path
) -> None:
    """A10, C8, C10: SCRAM, PLAIN, OAUTHBEARER and certificates; what is wrong is named."""
    expected = java_files(fortress, tmp_path, name)
    assert java([tmp_path / case for case in expected]) == expected
