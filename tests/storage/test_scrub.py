"""The scrub finds damage that nobody has read yet, and only real damage."""

from pathlib import Path

import pytest

from chordmq.storage.log import Log
from chordmq.storage.scrub import Scrub
from tests.storage.logs import Disk, append, batch, disk


def filled(d: Disk) -> Log:
    log = d.log()
    for number in range(100):
        append(log, batch(b"%d" % number * 50), epoch=number // 50)
    log.flush()
    return log


async def one_round(log: Log) -> Scrub:
    scrub = Scrub(lambda: [log], bytes_per_s=1 << 30)
    await scrub.round()
    return scrub


async def test_a_sound_log_is_read_from_end_to_end(tmp_path: Path) -> None:
    """D4: the background scrub reads every sealed segment."""
    with disk(tmp_path) as d:
        log = filled(d)
        scrub = await one_round(log)
        assert scrub.bytes_checked >= sum(segment.size for segment in log.segments[:-1])
        assert log.corruptions == ()
        log.close()


@pytest.mark.parametrize("position", [0, 9, 14, 16, 19, 40, 300])
async def test_damage_is_reported_with_its_place(tmp_path: Path, position: int) -> None:
    """D4: a flipped bit is reported by file, position and offset, before anyone reads it."""
    with disk(tmp_path) as d:
        log = filled(d)
        path = log.segments[1].path
        data = bytearray(path.read_bytes())
        data[position] ^= 4
        path.write_bytes(data)
        await one_round(log)
        assert len(log.corruptions) == 1
        assert str(path) in log.corruptions[0]
        log.close()
