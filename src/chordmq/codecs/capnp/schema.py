"""Loads the schema of the Cap'n Proto front; needs the extra `chordmq[capnp]`."""

from pathlib import Path
from typing import Any

import capnp

FILE = (Path(__file__).parent / "chordmq.capnp").resolve()


def load() -> Any:
    """Return the module of the schema's types, with what its stream calls refer to."""
    return capnp.load(str(FILE), imports=[str(Path(capnp.__file__).parent.parent)])


SCHEMA = load()
