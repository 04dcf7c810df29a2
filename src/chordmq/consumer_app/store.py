"""Which data set the application serves: one that is imported takes the old one's place at once."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chordmq.clock import Clock
from chordmq.consumer_app.data_set import DataSet
from chordmq.storage.files import replace

CURRENT = "CURRENT"
IMPORT_PREFIX = "import-"
"""Of folders for files that are being uploaded."""


class Store:
    """A folder with one folder for each data set, and the file `CURRENT` that names the one served.

    Whoever writes holds `turn`; `generation` tells whether the data set is still the same.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._clock = clock
        self.turn = asyncio.Lock()
        self.on_replaced: Callable[[], None] = lambda: None
        """Tells whoever follows the topic that it is to go on from another place."""
        self._queries: Counter[int] = Counter()
        self._idle: dict[int, asyncio.Event] = {}
        self.generation = self._read()
        for path in directory.iterdir():
            is_old = path.name.isdigit() and int(path.name) != self.generation
            if is_old or path.name.startswith(IMPORT_PREFIX):
                shutil.rmtree(path)  # a crash has left it
        self.data = self._open(self.generation)

    async def take(self, exported: Path) -> int:
        """Serve an exported data set from now on; raise ValueError if the file is none."""
        async with self.turn:
            number = self.generation + 1
            count = await asyncio.to_thread(self._build, number, exported)
            new = self._open(number)
            await asyncio.to_thread(replace, self._directory / CURRENT, str(number).encode())
            old, self.data, before = self.data, new, self.generation
            self.generation = number
        self.on_replaced()
        if before in self._queries:
            done = self._idle[before] = asyncio.Event()
            await done.wait()
        await asyncio.to_thread(old.close)
        await asyncio.to_thread(shutil.rmtree, self._directory / str(before))
        return count

    @contextmanager
    def querying(self) -> Iterator[DataSet]:
        """Give the data set for the length of a query; it stays open until the last one ends."""
        number = self.generation
        self._queries[number] += 1
        try:
            yield self.data
        finally:
            self._queries[number] -= 1
            if not self._queries[number]:
                del self._queries[number]
                if number in self._idle:
                    self._idle.pop(number).set()

    def close(self) -> None:
        """Close the files."""
        self.data.close()

    def _build(self, number: int, exported: Path) -> int:
        directory = self._directory / str(number)
        if directory.exists():
            shutil.rmtree(directory)
        data = DataSet(directory, self._clock)
        try:
            count = data.load(exported)
        except ValueError:
            data.close()
            shutil.rmtree(directory)
            raise
        data.close()
        return count

    def _open(self, number: int) -> DataSet:
        return DataSet(self._directory / str(number), self._clock)

    def _read(self) -> int:
        try:
            return int((self._directory / CURRENT).read_text())
        except FileNotFoundError:
            return 1
