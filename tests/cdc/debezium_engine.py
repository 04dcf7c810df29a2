"""Runs Debezium itself, in a Python of its own, and writes each of its events as a line of JSON.

The first argument is a file with its properties, the second the file for the events.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pydbzengine import (  # type: ignore[import-not-found]
    BasePythonChangeHandler,
    DebeziumJsonEngine,
)


class Recorder(BasePythonChangeHandler):  # type: ignore[misc]
    """Writes what Debezium tells."""

    def __init__(self, output: Any) -> None:
        self._output = output

    def handleJsonBatch(self, records: Any) -> None:
        """Take a batch of events."""
        for record in records:
            key, value = record.key(), record.value()
            event = {
                "topic": str(record.destination()),
                "key": None if key is None else json.loads(str(key)),
                "value": None if value is None else json.loads(str(value)),
            }
            self._output.write(json.dumps(event) + "\n")
        self._output.flush()


def main() -> None:
    """Run the engine until it is killed."""
    properties: dict[str, str] = json.loads(Path(sys.argv[1]).read_text())
    with Path(sys.argv[2]).open("w") as output:
        DebeziumJsonEngine(properties=properties, handler=Recorder(output)).run()


if __name__ == "__main__":
    main()
