"""Clients are open for the length of a block."""

import pytest

from chordmq.client.opened import Opened


class Recorder(Opened):
    """Remembers what was done to it."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    async def _open(self) -> None:
        self.seen.append("open")

    async def _close(self, error: BaseException | None) -> None:
        self.seen.append(error)


async def test_a_client_is_closed_and_told_what_has_ended_its_block() -> None:
    async with Recorder() as one:
        assert one.seen == ["open"]
    assert one.seen == ["open", None]
    failure = ValueError("x")
    other = Recorder()
    with pytest.raises(ValueError, match="x"):
        async with other:
            raise failure
    assert other.seen == ["open", failure]
