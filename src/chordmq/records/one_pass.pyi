from collections.abc import Collection
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from chordmq.records.positions import Longs, Octets

Edges: TypeAlias = npt.NDArray[np.int32]
Bytes: TypeAlias = tuple[Octets | None, Edges, Octets]
"""The buffers of an array of bytes: which are valid (None for all), where each begins, and all."""

def decode(
    data: Octets, batches: Longs, names: Collection[str], start: int, stop: int
) -> tuple[Longs, Longs, npt.NDArray[np.int32], Bytes | None, Bytes | None, Longs | None]:
    """Return offsets, times (µs), kinds of time, keys, values, and where headers start and stop."""
