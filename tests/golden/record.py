"""Records one message per class and kind of version in the form that kafka-clients gives it.

Run it as `python -m tests.golden.record <class path>`; see Recorder.java for the class path.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from chordmq.codecs.kafka.schema import encode
from tests.codecs.kafka.arbitrary import message_classes, sample

HERE = Path(__file__).parent
GOLDEN = HERE / "kafka_messages.jsonl"


def recorded_versions(cls: type[Any]) -> list[int]:
    """Return the first, the first flexible and the last version of a message."""
    chosen = {cls.versions[0], cls.versions[-1]} | {cls.flexible_since} & set(cls.versions)
    return sorted(chosen)


def main(class_path: str) -> None:
    """Write the file, after kafka-clients has read every message and written the same bytes."""
    messages = [
        (cls, version, encode(sample(cls, version), version))
        for cls in message_classes()
        for version in recorded_versions(cls)
    ]
    lines = [
        f"{cls.api_key} {'request' if cls.__name__.endswith('Request') else 'response'}"
        f" {version} {wire.hex()}\n"
        for cls, version, wire in messages
    ]
    command = ["java", "-cp", class_path, str(HERE / "Recorder.java")]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=True)
    with GOLDEN.open("w") as file:
        for (cls, version, wire), answer in zip(messages, done.stdout.splitlines(), strict=True):
            java_wire, fields = answer.split(" ", 1)
            assert java_wire == wire.hex(), f"{cls.__name__} v{version}"
            row = {"message": cls.__name__, "version": version, "hex": java_wire}
            file.write(json.dumps(row | {"fields": json.loads(fields)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
