"""Failures carry what Kafka calls them."""

import pytest

from chordmq.client.errors import BrokerRefused, CannotConnect, ClientError, check


def test_a_refusal_carries_kafkas_code_and_name_and_the_brokers_words() -> None:
    with pytest.raises(BrokerRefused, match=r"topic t: INVALID_CONFIG \(40\): no such") as caught:
        check(40, "topic t", "no such setting")
    assert (caught.value.code, caught.value.name) == (40, "INVALID_CONFIG")
    assert isinstance(caught.value, ClientError)


def test_only_faults_that_can_pass_are_retriable() -> None:
    assert BrokerRefused(6, "p").retriable
    assert not BrokerRefused(10, "p").retriable
    assert CannotConnect("x").retriable


def test_zero_is_no_error() -> None:
    check(0, "anything")
