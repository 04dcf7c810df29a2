"""DescribeUserScramCredentials, AlterUserScramCredentials: passwords, as far as they are known."""

from collections import Counter

from chordmq.broker.security.accounts import Credential
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.credentials import (
    HASHES,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    from_salted,
)
from chordmq.broker.security.users import Users
from chordmq.codecs.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from chordmq.codecs.kafka.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from chordmq.errors import (
    ChordMQError,
    ClusterAccessDenied,
    UnacceptableCredential,
    UnknownUser,
    UnsupportedSaslMechanism,
    UserExists,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of, reason_of

MECHANISMS = dict(enumerate(HASHES, start=1))
"""The protocol's numbers: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""
NUMBERS = {name: number for number, name in MECHANISMS.items()}
SALT_SIZE_MAX = 1024

Changes = dict[str, Credential | None]


def describe_user_scram_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Say which mechanisms users can log in with, and never with what."""
    try:
        users = _administered(call, Operation.DESCRIBE)
    except ChordMQError as error:
        return DescribeUserScramCredentialsResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    asked = [user.name for user in request.users or []]
    names = asked or [user.name for user in users if user.credentials]
    repeated = {name for name, count in Counter(asked).items() if count > 1}
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_described(users, name, name in repeated) for name in dict.fromkeys(names)],
    )


def _described(users: Users, name: str, is_repeated: bool) -> DescribeUserScramCredentialsResult:
    user = users.find(name)
    error: ChordMQError | None = None
    if is_repeated:
        error = UserExists(f"the request names {name!r} twice")
    elif user is None or not user.credentials:
        error = UnknownUser(f"{name!r} has no SCRAM credentials")
    if error is not None or user is None:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=code_of(error) if error else 0,
            error_message=reason_of(error) if error else None,
        )
    return DescribeUserScramCredentialsResult(
        user=name,
        error_message=None,
        credential_infos=[
            CredentialInfo(mechanism=NUMBERS[mechanism], iterations=credential.iterations)
            for mechanism, credential in sorted(user.credentials.items())
        ],
    )


async def alter_user_scram_credentials(
    call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Set and remove credentials; each user's changes are made together or not at all."""
    names = dict.fromkeys(
        [row.name for row in request.deletions] + [row.name for row in request.upsertions]
    )
    return AlterUserScramCredentialsResponse(
        results=[await _altered(call, request, name) for name in names]
    )


async def _altered(
    call: Call, request: AlterUserScramCredentialsRequest, name: str
) -> AlterUserScramCredentialsResult:
    try:
        users = _administered(call, Operation.ALTER)
        changes = _changes(users, request, name)
        await users.set_credentials(name, changes)
        for mechanism, credential in changes.items():
            call.audit(
                "user.credential", f"{name} {mechanism} {'set' if credential else 'removed'}"
            )
    except ChordMQError as error:
        return AlterUserScramCredentialsResult(
            user=name, error_code=code_of(error), error_message=reason_of(error)
        )
    return AlterUserScramCredentialsResult(user=name, error_message=None)


def _changes(users: Users, request: AlterUserScramCredentialsRequest, name: str) -> Changes:
    """Return the changes to one user, or raise what is wrong with them."""
    changes: Changes = {}
    user = users.find(name)
    rows: list[ScramCredentialDeletion | ScramCredentialUpsertion]
    rows = [*request.deletions, *request.upsertions]
    for row in rows:
        if row.name != name:
            continue
        mechanism = MECHANISMS.get(row.mechanism)
        if mechanism is None:
            raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
        if mechanism in changes:
            raise UserExists(f"the request changes {mechanism} of {name!r} twice")
        if isinstance(row, ScramCredentialUpsertion):
            changes[mechanism] = _credential(mechanism, row)
        elif user is None or mechanism not in user.credentials:
            raise UnknownUser(f"{name!r} has no {mechanism} credential")
        else:
            changes[mechanism] = None
    return changes


def _credential(mechanism: str, row: ScramCredentialUpsertion) -> Credential:
    if not row.name:
        raise UnacceptableCredential("Username must not be empty")
    if row.iterations < ITERATIONS_MIN:
        raise UnacceptableCredential("Too few iterations")
    if row.iterations > ITERATIONS_MAX:
        raise UnacceptableCredential("Too many iterations")
    if not 0 < len(row.salt) <= SALT_SIZE_MAX or not row.salted_password:
        raise UnacceptableCredential("The salt or the salted password is empty")
    return from_salted(mechanism, row.salted_password, row.salt, row.iterations)


def _administered(call: Call, operation: Operation) -> Users:
    """Return the users, if this client may see or change them."""
    call.check(operation, Kind.CLUSTER)
    authenticator = call.front.authenticator
    if authenticator is None:
        raise ClusterAccessDenied("this listener knows no users")
    return authenticator.users
