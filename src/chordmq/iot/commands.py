"""Commands to devices: their life cycle as a table, retries, time-outs and order (pure).

issued → sent → delivered → acknowledged → succeeded | failed
and from each of these → expired | cancelled
"""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chordmq.dataclass import dataclass
from chordmq.errors import CommandEnded, CommandExists, InvalidRequest
from chordmq.iot.envelope import Id

REASON_LENGTH_MAX = 500


class State(StrEnum):
    """How far a command is."""

    ISSUED = "issued"
    """It is stored and waits for its turn."""
    SENT = "sent"
    """It lies in the log for the device."""
    DELIVERED = "delivered"
    """The device says that it has it."""
    ACKNOWLEDGED = "acknowledged"
    """The device is at work on it."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Return whether nothing more can happen."""
        return self in FINAL


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.EXPIRED, State.CANCELLED})


class Event(StrEnum):
    """What happens to a command."""

    SEND = "send"
    DELIVER = "delivered"
    ACKNOWLEDGE = "acknowledged"
    SUCCEED = "succeeded"
    FAIL = "failed"
    EXPIRE = "expire"
    CANCEL = "cancel"


TRANSITIONS = {
    (State.ISSUED, Event.SEND): State.SENT,
    (State.SENT, Event.SEND): State.SENT,  # again, for want of an answer
    (State.DELIVERED, Event.SEND): State.DELIVERED,
    (State.SENT, Event.DELIVER): State.DELIVERED,
    **{
        (state, event): outcome
        for state in (State.SENT, State.DELIVERED, State.ACKNOWLEDGED)
        for event, outcome in (
            (Event.ACKNOWLEDGE, State.ACKNOWLEDGED),
            (Event.SUCCEED, State.SUCCEEDED),
            (Event.FAIL, State.FAILED),
        )
    },
    **{
        (state, event): outcome
        for state in set(State) - FINAL
        for event, outcome in ((Event.EXPIRE, State.EXPIRED), (Event.CANCEL, State.CANCELLED))
    },
}
"""What can happen; a pair that is not here changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often commands are tried unless they say otherwise."""

    timeout_ms: int = 60_000
    retry_ms: int = 10_000
    attempts_max: int = 3
    kept_ms: int = 24 * 60 * 60 * 1000
    """How long a command can be asked about after its end."""


class Issue(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What somebody wants a device to do."""

    id: Id | None = None
    parameters: Any = None
    timeout_ms: Annotated[int, Meta(ge=1, le=30 * 24 * 3600 * 1000)] | None = None
    retry_ms: Annotated[int, Meta(ge=10)] | None = None
    attempts_max: Annotated[int, Meta(ge=1, le=1000)] | None = None


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """What a device answers; other fields are let through."""

    id: Id | None = None
    status: str = Event.SUCCEED
    result: Any = None
    reason: str = ""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command to one device."""

    id: str
    device: str
    name: str
    parameters: Any = None
    issued_by: str = ""
    issued_ms: int
    expires_ms: int
    retry_ms: int
    attempts_max: int
    order: int
    """Its place among all commands."""
    state: State = State.ISSUED
    attempts: int = 0
    due_ms: int = 0
    """When it is sent again."""
    changed_ms: int = 0
    result: Any = None
    reason: str = ""


def issued(  # noqa: PLR0913  what a command is made of
    command_id: str,
    address: tuple[str, str],
    issue: Issue,
    patience: Patience,
    *,
    issued_by: str,
    order: int,
    now_ms: int,
) -> Command:
    """Return a new command to a device, of a name."""
    device, name = address
    return Command(
        id=command_id,
        device=device,
        name=name,
        parameters=issue.parameters,
        issued_by=issued_by,
        issued_ms=now_ms,
        expires_ms=now_ms + (issue.timeout_ms or patience.timeout_ms),
        retry_ms=issue.retry_ms or patience.retry_ms,
        attempts_max=issue.attempts_max or patience.attempts_max,
        order=order,
        changed_ms=now_ms,
    )


def check_same(command: Command, name: str, issue: Issue) -> None:
    """Raise CommandExists unless a command was issued with the same words."""
    if (command.name, command.parameters) != (name, issue.parameters):
        raise CommandExists(f"{command.device} has another command {command.id!r}")


def after(
    command: Command, event: Event, now_ms: int, *, result: Any = None, reason: str = ""
) -> Command:
    """Return a command after an event; the same one if the event means nothing to it now."""
    state = TRANSITIONS.get((command.state, event))
    if state is None:
        return command
    changes: dict[str, Any] = {"state": state}
    if event is Event.SEND:
        changes |= {"attempts": command.attempts + 1, "due_ms": now_ms + command.retry_ms}
    if result is not None:
        changes["result"] = result
    if reason:
        changes["reason"] = reason[:REASON_LENGTH_MAX]
    if all(getattr(command, name) == value for name, value in changes.items()):
        return command
    return msgspec.structs.replace(command, **changes, changed_ms=now_ms)


def answered(command: Command, response: Response, now_ms: int) -> Command:
    """Return a command after a device's answer; raise InvalidRequest for a status there is not."""
    try:
        event = Event(response.status)
    except ValueError:
        event = Event.SEND
    if event not in (Event.DELIVER, Event.ACKNOWLEDGE, Event.SUCCEED, Event.FAIL):
        raise InvalidRequest(f"{response.status[:40]!r} is no status that a device can answer")
    return after(command, event, now_ms, result=response.result, reason=response.reason)


def cancelled(command: Command, now_ms: int) -> Command:
    """Return a command that is not wanted any more; raise CommandEnded if it is too late."""
    if command.state is State.CANCELLED:
        return command
    if command.state.is_final:
        raise CommandEnded(f"{command.id} has {command.state}")
    return after(command, Event.CANCEL, now_ms)


def next_ms(command: Command) -> int:
    """Return when something happens to a command by itself."""
    if command.state in (State.SENT, State.DELIVERED) and command.attempts < command.attempts_max:
        return min(command.due_ms, command.expires_ms)
    return command.expires_ms


def passed(command: Command, now_ms: int) -> Command:
    """Return what the passing of time makes of a command: sent again, expired, or the same."""
    if command.state.is_final or next_ms(command) > now_ms:
        return command
    if command.expires_ms <= now_ms:
        return after(command, Event.EXPIRE, now_ms, reason="no answer in time")
    return after(command, Event.SEND, now_ms)
