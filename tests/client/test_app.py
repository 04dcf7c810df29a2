"""Applications: how their handlers are found and run."""

import sys
from types import ModuleType

import pytest

from chordmq.client.app import ConsumerApp, app_in
from chordmq.client.handlers import consumer


@pytest.fixture
def module() -> ModuleType:
    made = ModuleType("billing")
    vars(made)["app"] = app = ConsumerApp()
    app.consumer("orders", group="g")(print)
    vars(made)["one"] = consumer("payments", group="g")(print)
    vars(made)["two"] = consumer("refunds", group="g")(print)
    return made


def test_an_application_is_found_by_name_and_handlers_without_one(module: ModuleType) -> None:
    """D10: module:app, module:function or the whole module."""
    assert [one.topic for one in app_in(module, "app").handlers] == ["orders"]
    assert [one.topic for one in app_in(module, "one").handlers] == ["payments"]
    assert [one.topic for one in app_in(module).handlers] == ["payments", "refunds"]


def test_what_is_not_there_is_said(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="no ConsumerApp called 'other'"):
        app_in(module, "other")
    with pytest.raises(ValueError, match="no function with @consumer"):
        app_in(sys)


async def test_an_application_without_handlers_is_refused() -> None:
    with pytest.raises(ValueError, match="no consumers"):
        await ConsumerApp().serve("127.0.0.1:1")
