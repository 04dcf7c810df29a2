"""DescribeUserScramCredentials and AlterUserScramCredentials, asked through the codec."""

import hashlib
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.auth_settings import AuthSettings
from chordmq.broker.security.users import Users
from chordmq.clock import SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from chordmq.codecs.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from chordmq.fronts.kafka.call import Call, Client, KafkaFront
from chordmq.fronts.kafka.dispatch import APIS
from chordmq.fronts.listener import Listener, ListenerSettings

SHA_256, SHA_512 = 1, 2
UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND = 33, 91
DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL = 92, 93
SALT = b"0123456789abcdef"
HERE = "10.0.0.1"


@pytest.fixture
def front(broker: Broker) -> KafkaFront:
    clock = SystemClock()
    users = Users(broker.image, clock)
    judge = Authenticator(AuthSettings(mechanisms="PLAIN,SCRAM-SHA-256"), users, clock)
    return KafkaFront(broker, Listener(ListenerSettings(), clock, "kafka"), judge)


async def ask(front: KafkaFront, request: Any) -> Any:
    api = APIS[request.api_key]
    call = Call(front, Client(HERE), 0, "test")
    response = api.handle(call, schema.decode(type(request), 0, bytes(schema.encode(request, 0))))
    if not hasattr(response, "results"):
        response = await response
    return schema.decode(type(response), 0, bytes(schema.encode(response, 0)))


def upsertion(name: str, password: str, **fields: Any) -> ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, 8192)
    given = {"mechanism": SHA_256, "iterations": 8192, "salt": SALT, "salted_password": salted}
    return ScramCredentialUpsertion(name=name, **{**given, **fields})


async def alter(front: KafkaFront, *rows: Any) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        upsertions=[row for row in rows if isinstance(row, ScramCredentialUpsertion)],
        deletions=[row for row in rows if isinstance(row, ScramCredentialDeletion)],
    )
    answer = await ask(front, request)
    return {row.user: row.error_code for row in answer.results}


def judge_of(front: KafkaFront) -> Authenticator:
    assert front.authenticator is not None
    return front.authenticator


async def test_a_salted_password_becomes_a_login(front: KafkaFront) -> None:
    """C10: KIP-554; the node never sees the password until it is used."""
    assert await alter(front, upsertion("alice", "s3cret")) == {"alice": 0}
    login = await judge_of(front).check_password("alice", "s3cret", HERE)
    assert login.principal.name == "alice"


async def test_credentials_are_described_without_their_keys(front: KafkaFront) -> None:
    """C10: mechanism and iterations, nothing more."""
    await judge_of(front).users.add("bob", "x")
    await alter(front, upsertion("alice", "s3cret"))
    answer = await ask(front, DescribeUserScramCredentialsRequest(users=None))
    found = {
        row.user: [(info.mechanism, info.iterations) for info in row.credential_infos]
        for row in answer.results
    }
    assert found == {"alice": [(SHA_256, 8192)], "bob": [(SHA_256, 4096), (SHA_512, 4096)]}
    asked = [UserName(name="alice"), UserName(name="nobody")]
    answer = await ask(front, DescribeUserScramCredentialsRequest(users=asked))
    assert [row.error_code for row in answer.results] == [0, RESOURCE_NOT_FOUND]
    twice = [UserName(name="alice"), UserName(name="alice")]
    answer = await ask(front, DescribeUserScramCredentialsRequest(users=twice))
    assert [row.error_code for row in answer.results] == [DUPLICATE_RESOURCE]


async def test_what_cannot_be_a_credential_is_refused(front: KafkaFront) -> None:
    """C10: 4096 to 16384 iterations, as Kafka has it."""
    cases: list[tuple[dict[str, Any], int]] = [
        ({"iterations": 4095}, UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 16385}, UNACCEPTABLE_CREDENTIAL),
        ({"salt": b""}, UNACCEPTABLE_CREDENTIAL),
        ({"salted_password": b""}, UNACCEPTABLE_CREDENTIAL),
        ({"mechanism": 0}, UNSUPPORTED_SASL_MECHANISM),
        ({"mechanism": 9}, UNSUPPORTED_SASL_MECHANISM),
    ]
    for fields, code in cases:
        assert await alter(front, upsertion("alice", "x", **fields)) == {"alice": code}, fields
    assert await alter(front, upsertion("", "x")) == {"": UNACCEPTABLE_CREDENTIAL}
    both = upsertion("alice", "x"), upsertion("alice", "y")
    assert await alter(front, *both) == {"alice": DUPLICATE_RESOURCE}
    assert judge_of(front).users.find("alice") is None


async def test_a_credential_is_removed_and_a_missing_one_is_named(front: KafkaFront) -> None:
    await alter(front, upsertion("alice", "s3cret"))
    deletion = ScramCredentialDeletion(name="alice", mechanism=SHA_256)
    other = ScramCredentialDeletion(name="alice", mechanism=SHA_512)
    assert await alter(front, other) == {"alice": RESOURCE_NOT_FOUND}
    assert await alter(front, deletion, upsertion("bob", "x")) == {"alice": 0, "bob": 0}
    assert [user.name for user in judge_of(front).users] == ["bob"]
