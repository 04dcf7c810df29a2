"""Structured logs: one line per event, a level per module that can change while the node runs."""

import json
import logging
import re
import sys
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting
from chordmq.loading import load_without

LEVELS = ("debug", "info", "warning", "error", "critical")
ROOT = "root"
HIDDEN = "***"
FACTS = "facts"
"""Where a record of the standard library's keeps the facts of an event."""
SECRET = re.compile(
    r"passw(or)?d|secret|token|credential|authorization|private_?key|salt", re.IGNORECASE
)

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSettings:
    """How much is logged, and in which form."""

    level: str = "info"
    """The level of every module that has none of its own."""
    format: Literal["auto", "console", "json"] = "auto"
    """`auto` writes for people on a terminal and JSON anywhere else."""
    levels: Mapping[str, str] = field(default_factory=dict)
    """Levels of single modules or packages, such as `chordmq.fronts: debug`."""


class Logger:
    """Logs what happens in a module: an event in constant words, and its facts by name."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, /, **facts: Any) -> None:
        """Log what helps to find a fault."""
        self._log(logging.DEBUG, event, facts)

    def info(self, event: str, /, **facts: Any) -> None:
        """Log what happens in the ordinary course of things."""
        self._log(logging.INFO, event, facts)

    def warning(self, event: str, /, **facts: Any) -> None:
        """Log what somebody may have to look at."""
        self._log(logging.WARNING, event, facts)

    def error(self, event: str, /, *, exc_info: BaseException | None = None, **facts: Any) -> None:
        """Log what went wrong."""
        self._log(logging.ERROR, event, facts, exc_info)

    def exception(self, event: str, /, **facts: Any) -> None:
        """Log what went wrong, with the exception that is being handled."""
        self._log(logging.ERROR, event, facts, sys.exception())

    def critical(self, event: str, /, **facts: Any) -> None:
        """Log why the node cannot go on."""
        self._log(logging.CRITICAL, event, facts)

    def _log(
        self, level: int, event: str, facts: Facts, fault: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, exc_info=fault, extra={FACTS: facts})


get_logger = Logger


class JsonLines(logging.Formatter):
    """One JSON object for each event, also those of libraries."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of an event."""
        return json.dumps(self.event(record), default=repr)

    def event(self, record: logging.LogRecord) -> Facts:
        """Return an event and its facts, without secrets."""
        time = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        said = {
            **getattr(record, FACTS, {}),
            "event": record.getMessage(),
            "logger": record.name,
            "level": record.levelname.lower(),
            "timestamp": f"{time.isoformat(timespec='microseconds')}Z",
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return hide_secrets(said)


class ConsoleLines(JsonLines):
    """One line for people, and what follows it, for each event."""

    def __init__(self) -> None:
        super().__init__()
        # Rich takes long to load, and would only colour tracebacks.
        dev = load_without("rich", "structlog.dev")
        self._render = dev.ConsoleRenderer(exception_formatter=dev.plain_traceback)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of an event."""
        return str(self._render(None, record.levelname.lower(), self.event(record)))


def configure(settings: LogsSettings, stream: TextIO | None = None) -> None:
    """Send the logs of this process, also those of libraries, to one stream."""
    output = stream or sys.stderr
    console = settings.format == "console" or (settings.format == "auto" and output.isatty())
    handler = logging.StreamHandler(output)
    handler.setFormatter(ConsoleLines() if console else JsonLines())
    logging.getLogger().handlers = [handler]
    set_level(ROOT, settings.level)
    for module, level in settings.levels.items():
        set_level(module, level)


def hide_secrets(facts: Facts) -> Facts:
    """Replace the value of every fact whose name says that it is secret."""
    return {name: _hidden(name, value) for name, value in facts.items()}


def _hidden(name: str, value: Any) -> Any:
    if SECRET.search(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: _hidden(str(key), inner) for key, inner in value.items()}
    return value


def set_level(module: str, level: str | None) -> None:
    """Set the level of a module and what is below it; None gives it back its parent's level."""
    check_level(module, level)
    logging.getLogger(None if module == ROOT else module).setLevel(
        logging.NOTSET if level is None else level.upper()
    )


def check_level(module: str, level: object) -> None:
    """Raise InvalidSetting unless the module exists and the level can be set on it."""
    if level is None and module == ROOT:
        raise InvalidSetting("the root needs a level of its own")
    if level is not None and not (isinstance(level, str) and level.lower() in LEVELS):
        raise InvalidSetting(f"no log level is called {level!r}; there are {', '.join(LEVELS)}")
    if module == ROOT:
        return
    known = modules()
    if module not in known:
        import difflib

        nearest = difflib.get_close_matches(module, known, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise InvalidSetting(f"no module is called {module!r}{hint}")


def levels() -> dict[str, str]:
    """Return the modules that have a level of their own, and the root's."""
    named = {ROOT: logging.getLogger()} | {
        name: logger
        for name, logger in sorted(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET
    }
    return {name: logging.getLevelName(logger.level).lower() for name, logger in named.items()}


def modules() -> list[str]:
    """Return the names that can have a level: our modules, and the libraries that log."""
    package = Path(__file__).parent
    files = (path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py"))
    ours = {".".join(file.parts).removesuffix(".__init__") for file in files}
    return [ROOT, *sorted(ours | logging.root.manager.loggerDict.keys())]
