"""Structured logs: one line per event, a level per module that can change while the node runs."""

import logging
import re
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidSetting

LEVELS = ("debug", "info", "warning", "error", "critical")
ROOT = "root"
HIDDEN = "***"
SECRET = re.compile(
    r"passw(or)?d|secret|token|credential|authorization|private_?key|salt", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSettings:
    """How much is logged, and in which form."""

    level: str = "info"
    """The level of every module that has none of its own."""
    format: Literal["auto", "console", "json"] = "auto"
    """`auto` writes for people on a terminal and JSON anywhere else."""
    levels: Mapping[str, str] = field(default_factory=dict)
    """Levels of single modules or packages, such as `chordmq.fronts: debug`."""


def configure(settings: LogsSettings, stream: TextIO | None = None) -> None:
    """Send the logs of this process, also those of libraries, to one stream."""
    output = stream or sys.stderr
    console = settings.format == "console" or (settings.format == "auto" and output.isatty())
    before: list[Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                writer(console),
            ],
        )
    )
    logging.getLogger().handlers = [handler]
    set_level(ROOT, settings.level)
    for module, level in settings.levels.items():
        set_level(module, level)


def writer(console: bool) -> Processor:
    """Return what turns an event into its line."""
    if console:
        return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer()


def hide_secrets(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Replace the value of every field whose name says that it is secret."""
    return {name: _hidden(name, value) for name, value in event.items()}


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
