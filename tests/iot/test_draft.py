"""What messages and the time make of devices."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import CommandExists, CommandQueueFull, StaleVersion, UnknownDevice
from chordmq.iot import devices
from chordmq.iot.commands import Command, Patience, State
from chordmq.iot.desk import Desk, Refusal, Rules, Step
from chordmq.iot.devices import Address, Subject
from chordmq.iot.draft import Draft
from chordmq.iot.flow import Flow, SlowConsumer
from chordmq.iot.messages import Incoming
from chordmq.iot.models import DeviceModel, Models
from chordmq.iot.shadow import Limits
from chordmq.records.dead_letter import REASON_HEADER

RULES = Rules(patience=Patience(timeout_ms=1000, retry_ms=100, attempts_max=3, kept_ms=5000))


class Bench:
    """A desk with a clock, where what is decided is stored at once."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.desk = Desk(rules)
        self.now_ms = 1_000_000
        self.offset = 0
        self.present: dict[str, int] = {}

    def send(self, subject: Subject, told: Any, device: str = "d7", name: str = "") -> Step:
        value = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.offset += 1
        incoming = Incoming(
            str(Address(device, subject, name)), value, topic="t", offset=self.offset
        )
        draft = self.draft()
        draft.receive(incoming)
        return self.store(draft)

    def draft(self) -> Draft:
        return Draft(self.desk, self.now_ms, self.present.get)

    def store(self, draft: Draft) -> Step:
        step = draft.finish()
        for entry in step.entries:
            self.desk.replay(entry)
        return step

    def pass_time(self, wait_ms: int) -> Step:
        self.now_ms += wait_ms
        draft = self.draft()
        draft.pass_time()
        return self.store(draft)

    def connect(self, device: str, node: int | None) -> Step:
        draft = self.draft()
        draft.connect(device, node)
        return self.store(draft)

    def issue(self, command: str, **more: Any) -> Step:
        return self.send(devices.COMMAND_ISSUE, {"id": command, **more}, name="reboot")

    def respond(self, command: str, **more: Any) -> Step:
        return self.send(devices.COMMAND_RESPONSE, {"id": command, **more}, name="reboot")

    def command(self, command: str) -> Command:
        return self.desk.command("d7", command)


def told(step: Step, subject: Subject) -> list[Any]:
    """Return what was published about a subject."""
    return [
        json.loads(one.value)["payload"]
        for one in step.outgoing
        if not one.is_dead
        and one.value is not None
        and (address := devices.parse(one.name)) is not None
        and address.subject is subject
    ]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_update_is_answered_and_the_device_hears_the_delta(bench: Bench) -> None:
    """E9: accepted for who asked, the delta for the device, retained until it is gone."""
    step = bench.send(devices.SHADOW_UPDATE, {"state": {"desired": {"t": 20}}})
    assert told(step, devices.ACCEPTED[devices.SHADOW_UPDATE])[0]["version"] == 1
    assert told(step, devices.SHADOW_DELTA)[0]["state"] == {"t": 20}
    assert [one.is_retained for one in step.outgoing] == [False, True]
    step = bench.send(devices.SHADOW_UPDATE, {"state": {"reported": {"t": 20}}})
    assert told(step, devices.SHADOW_DELTA) == []
    assert [(one.is_retained, one.value) for one in step.outgoing[1:]] == [(True, None)]


def test_a_conflict_is_answered_with_the_current_state(bench: Bench) -> None:
    """E9: rejected with the current version."""
    bench.send(devices.SHADOW_UPDATE, {"state": {"desired": {"t": 20}}})
    step = bench.send(devices.SHADOW_UPDATE, {"state": {"desired": {"t": 9}}, "version": 7})
    (rejected,) = told(step, devices.REJECTED[devices.SHADOW_UPDATE])
    assert (rejected["error"], rejected["version"]) == ("StaleVersion", 1)
    assert rejected["state"]["desired"] == {"t": 20}
    (refusal,) = step.answers.values()
    assert isinstance(refusal, Refusal)
    assert isinstance(refusal.error, StaleVersion)
    assert step.entries == []


def test_what_makes_no_sense_goes_to_the_dead_letters_with_the_reason(bench: Bench) -> None:
    """E1: bad envelopes and bad content; the sender of a request is told as well."""
    step = bench.send(devices.TELEMETRY, b'{"metadata": {}, "payload": 1}', name="t")
    (letter,) = step.outgoing
    assert letter.is_dead
    assert b"messageId" in (dict(letter.headers)[REASON_HEADER] or b"")
    step = bench.send(devices.SHADOW_UPDATE, b"nonsense")
    assert [one.is_dead for one in step.outgoing] == [True, False]


def test_numbers_that_cannot_be_stored_are_refused(bench: Bench) -> None:
    step = bench.send(devices.SHADOW_UPDATE, {"state": {"desired": {"n": 2**70}}})
    assert [one.is_dead for one in step.outgoing] == [True, False]
    assert bench.desk.shadows == {}


def test_telemetry_makes_a_device_known_and_nothing_else(bench: Bench) -> None:
    step = bench.send(devices.TELEMETRY, b"21.5", name="t")
    assert list(bench.desk.devices) == ["d7"]
    assert not step.outgoing
    assert not bench.send(devices.TELEMETRY, b"21.6", name="t")


def test_unregistered_devices_are_put_aside_where_that_is_wanted() -> None:
    bench = Bench(Rules(registers=False))
    step = bench.send(devices.TELEMETRY, b"21.5", name="t")
    assert [one.is_dead for one in step.outgoing] == [True]
    bench.send(devices.REGISTER, {"model": "m1", "tags": {"room": "4"}})
    assert not bench.send(devices.TELEMETRY, b"21.5", name="t")
    assert bench.desk.device("d7").model == "m1"


def test_a_command_goes_to_the_device_and_its_answer_ends_it(bench: Bench) -> None:
    """E10: issued, sent, acknowledged, succeeded; each step is told."""
    step = bench.issue("c1", parameters={"delay": 5})
    (request,) = told(step, devices.COMMAND_REQUEST)
    assert (request["id"], request["parameters"], request["attempt"]) == ("c1", {"delay": 5}, 1)
    assert [one["state"] for one in told(step, devices.COMMAND_STATUS)] == ["issued", "sent"]
    bench.respond("c1", status="acknowledged")
    step = bench.respond("c1", status="succeeded", result=3)
    assert told(step, devices.COMMAND_STATUS)[0]["result"] == 3
    assert bench.command("c1").state is State.SUCCEEDED
    assert not bench.respond("c1", status="failed")


def test_the_same_command_again_is_not_sent_again(bench: Bench) -> None:
    """E10: idempotent by id."""
    bench.issue("c1")
    step = bench.issue("c1")
    assert not step
    assert [one.id for one in step.answers.values()] == ["c1"]
    (refusal,) = bench.issue("c1", parameters=1).answers.values()
    assert isinstance(refusal.error, CommandExists)


def test_commands_wait_for_each_other_and_keep_their_order(bench: Bench) -> None:
    """E6, E10: one at a time, in the order in which they were issued."""
    assert told(bench.issue("a"), devices.COMMAND_REQUEST)
    assert not told(bench.issue("b"), devices.COMMAND_REQUEST)
    assert not told(bench.issue("c"), devices.COMMAND_REQUEST)
    step = bench.respond("a")
    assert [one["id"] for one in told(step, devices.COMMAND_REQUEST)] == ["b"]
    step = bench.send(devices.COMMAND_CANCEL, {"id": "b"}, name="reboot")
    assert [one["id"] for one in told(step, devices.COMMAND_REQUEST)] == ["c"]


def test_a_command_is_sent_again_and_then_expires(bench: Bench) -> None:
    """E10: retries and time-out."""
    bench.issue("c1")
    assert not bench.pass_time(99)
    assert told(bench.pass_time(1), devices.COMMAND_REQUEST)[0]["attempt"] == 2
    assert told(bench.pass_time(100), devices.COMMAND_REQUEST)[0]["attempt"] == 3
    assert not bench.pass_time(500)
    step = bench.pass_time(300)
    assert told(step, devices.COMMAND_STATUS)[0]["state"] == "expired"
    assert [event.act for event in step.events] == ["command.expired"]
    bench.pass_time(5000)
    assert bench.desk.commands == {}


def test_a_device_that_is_away_is_sent_nothing_until_it_is_back(bench: Bench) -> None:
    """E6, E10: presence pauses the flow of commands."""
    bench.send(devices.TELEMETRY, b"1", name="t")
    step = bench.connect("d7", 0)
    assert told(step, devices.PRESENCE)[0]["connected"] is True
    bench.connect("d7", None)
    assert not told(bench.issue("c1"), devices.COMMAND_REQUEST)
    assert told(bench.connect("d7", 0), devices.COMMAND_REQUEST)[0]["id"] == "c1"


def test_a_will_says_that_the_device_has_gone(bench: Bench) -> None:
    """E3, E10: offline detection from wills, also for devices behind another's connection."""
    bench.send(devices.STATUS, {"status": "online"})
    assert bench.desk.device("d7").is_connected
    assert not bench.connect("d7", None)  # it is somebody else's client
    step = bench.send(devices.STATUS, b"offline")
    assert told(step, devices.PRESENCE)[0]["connected"] is False
    assert (bench.desk.device("d7").status, bench.desk.device("d7").is_connected) == (
        "offline",
        False,
    )


def test_a_will_of_an_earlier_connection_does_not_count(bench: Bench) -> None:
    """E3: it may come late, after the device has come back."""
    bench.present["d7"] = 0
    bench.send(devices.STATUS, b"online")
    step = bench.send(devices.STATUS, b"offline")
    assert told(step, devices.PRESENCE) == []
    assert bench.desk.device("d7").is_connected


def test_too_many_commands_are_refused_or_the_oldest_gives_way() -> None:
    """E6: the slow-consumer policy."""
    bench = Bench(Rules(flow=Flow(waiting_max=2)))
    for command in "abc":
        bench.issue(command)
    (refusal,) = bench.issue("d").answers.values()
    assert isinstance(refusal.error, CommandQueueFull)
    bench = Bench(Rules(flow=Flow(waiting_max=2, policy=SlowConsumer.DROP_OLDEST)))
    for command in "abcd":
        bench.issue(command)
    assert {one.id: str(one.state) for one in bench.desk.commands["d7"].values()} == {
        "a": "sent", "b": "cancelled", "c": "issued", "d": "issued",
    }  # fmt: skip


def test_a_forgotten_device_leaves_nothing_behind(bench: Bench) -> None:
    bench.issue("c1")
    bench.send(devices.SHADOW_UPDATE, {"state": {"desired": {"t": 1}}})
    bench.send(devices.FORGET, {})
    assert (bench.desk.devices, bench.desk.shadows, bench.desk.commands) == ({}, {}, {})
    (refusal,) = bench.send(devices.FORGET, {}).answers.values()
    assert isinstance(refusal.error, UnknownDevice)


ACTIONS = st.one_of(
    st.tuples(st.just("issue"), st.sampled_from("abcd")),
    st.tuples(st.just("respond"), st.sampled_from("abcd")),
    st.tuples(st.just("cancel"), st.sampled_from("abcd")),
    st.tuples(st.just("wait"), st.sampled_from([50, 100, 600])),
    st.tuples(st.just("connect"), st.sampled_from([0, None])),
)


@given(st.lists(ACTIONS, max_size=25), st.integers(1, 3))
def test_whatever_happens_order_and_credit_hold(
    actions: list[tuple[str, Any]], credit: int
) -> None:
    """E6, E10: never more under way than credit, never one before an older one."""
    patience = Patience(timeout_ms=1000, retry_ms=100, kept_ms=1_000_000)
    bench = Bench(Rules(patience=patience, flow=Flow(credit=credit)))
    first_sent: list[str] = []
    issued: list[str] = []
    for action, what in actions:
        if action == "issue":
            step = bench.issue(what)
            if any(isinstance(one, Command) for one in step.entries):
                issued.append(what)
        elif action == "respond":
            step = bench.respond(what)
        elif action == "cancel":
            step = bench.send(devices.COMMAND_CANCEL, {"id": what}, name="reboot")
        elif action == "wait":
            step = bench.pass_time(what)
        else:
            step = bench.connect("d7", what)
        requests = told(step, devices.COMMAND_REQUEST)
        first_sent += [one["id"] for one in requests if one["attempt"] == 1]
        known = bench.desk.commands.get("d7", {}).values()
        under_way = [one for one in known if not one.state.is_final and one.attempts]
        assert len(under_way) <= credit
    order = [issued.index(one) for one in first_sent]
    assert order == sorted(order)


def test_shadows_with_names_live_beside_the_one_without() -> None:
    """E9: each has its own version and delta; who forgets the device forgets them all."""
    bench = Bench()
    bench.send(devices.SHADOW_UPDATE, {"state": {"desired": {"heat": 20}}})
    update = devices.NAMED_SHADOW_UPDATE
    step = bench.send(update, {"state": {"desired": {"ssid": "x"}}}, name="network")
    root = "iotsphere/devices/d7/shadow/name/network/update"
    assert [one.name for one in step.outgoing] == [f"{root}/accepted", f"{root}/delta"]
    stale = bench.send(update, {"state": {"desired": {"ssid": "y"}}, "version": 7}, name="network")
    assert [one.name for one in stale.outgoing] == [f"{root}/rejected"]
    assert bench.desk.shadows["d7"].desired == {"heat": 20}
    assert bench.desk.shadows["d7/network"].version == 1
    bench.send(devices.FORGET, {})
    assert bench.desk.shadows == {}
    assert bench.desk.shadow_names == {}


def test_a_device_has_so_many_shadows_with_names_and_no_more() -> None:
    """E9: what has a name is bounded, too."""
    bench = Bench(Rules(limits=Limits(names_max=2)))
    for name in ("a", "b", "c"):
        bench.send(devices.NAMED_SHADOW_UPDATE, {"state": {"reported": {"x": 1}}}, name=name)
    assert sorted(bench.desk.shadows) == ["d7/a", "d7/b"]


def test_telemetry_is_told_again_in_common_words_if_that_is_wanted() -> None:
    """E11: by the tables of the device's model; what makes no sense goes to the dead letters."""
    model = DeviceModel(metrics={"t1": "temperature"}, units={"temperature": "F"})
    bench = Bench(Rules(models=Models(models={"acme-9": model})))
    bench.send(devices.REGISTER, {"model": "acme-9"})
    step = bench.send(devices.TELEMETRY, b"212", name="t1")
    (told,) = step.outgoing
    assert told.name == "iotsphere/devices/d7/measures/temperature"
    payload = json.loads(told.value or b"")["payload"]
    assert (round(payload["value"]), payload["unit"]) == (100, "C")
    (dead,) = bench.send(devices.TELEMETRY, b"warm", name="t1").outgoing
    assert dead.is_dead
    assert Bench().send(devices.TELEMETRY, b"212", name="t1").outgoing == []
