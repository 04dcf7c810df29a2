"""Logs: their form, their levels, and what must never be in them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from chordmq.errors import InvalidSetting
from chordmq.logs import LogsSettings, configure, get_logger, levels, set_level


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    for name in levels():
        if name.startswith("chordmq"):
            logging.getLogger(name).setLevel(logging.NOTSET)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_its_facts() -> None:
    """C15: structured logs."""
    stream = io.StringIO()
    configure(LogsSettings(), stream)
    get_logger("chordmq.logs").warning("connection refused", address="192.0.2.1", open=3)
    (line,) = lines(stream)
    assert line.pop("timestamp")
    assert line == {
        "event": "connection refused",
        "level": "warning",
        "logger": "chordmq.logs",
        "address": "192.0.2.1",
        "open": 3,
    }


def test_libraries_log_in_the_same_form() -> None:
    stream = io.StringIO()
    configure(LogsSettings(), stream)
    logging.getLogger("uvicorn.error").warning("Invalid %s", "request")
    (line,) = lines(stream)
    assert (line["event"], line["logger"]) == ("Invalid request", "uvicorn.error")


def test_an_exception_is_part_of_its_line() -> None:
    stream = io.StringIO()
    configure(LogsSettings(), stream)
    try:
        raise ValueError("broken")
    except ValueError:
        get_logger("chordmq.logs").exception("request failed")
    (line,) = lines(stream)
    assert "ValueError: broken" in str(line["exception"])


def test_people_get_lines_for_people() -> None:
    stream = io.StringIO()
    configure(LogsSettings(format="console"), stream)
    get_logger("chordmq.logs").info("ready", port=9092)
    assert "ready" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_each_module_has_its_own_level_and_it_can_change() -> None:
    """C15: the level of a module changes at run time and leaves the others alone."""
    stream = io.StringIO()
    configure(LogsSettings(level="warning", levels={"chordmq.logs": "debug"}), stream)
    ours, other = (get_logger(name) for name in ("chordmq.logs", "chordmq.config"))
    ours.debug("one")
    other.info("two")
    set_level("chordmq.logs", None)
    ours.info("three")
    set_level("chordmq", "info")
    ours.info("four")
    other.info("five")
    assert [line["event"] for line in lines(stream)] == ["one", "four", "five"]
    assert levels()["root"] == "warning"
    assert levels()["chordmq"] == "info"


def test_secrets_are_hidden_wherever_their_name_shows_them() -> None:
    """C15: what is secret never reaches a log."""
    stream = io.StringIO()
    configure(LogsSettings(), stream)
    get_logger("chordmq.logs").info(
        "user added",
        user="ann",
        password="opensesame",
        settings={"sasl.jaas.Password": "opensesame", "inner": {"api_token": "opensesame"}},
    )
    assert "opensesame" not in stream.getvalue()
    assert lines(stream)[0]["user"] == "ann"


@pytest.mark.parametrize(
    ("module", "level", "complaint"),
    [
        ("root", "loud", "no log level is called 'loud'"),
        ("chordmq.lgos", "info", "did you mean 'chordmq.logs'?"),
        ("root", None, "needs a level"),
    ],
)
def test_a_level_that_makes_no_sense_is_refused(
    module: str, level: str | None, complaint: str
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        set_level(module, level)
    assert complaint in str(refused.value)
