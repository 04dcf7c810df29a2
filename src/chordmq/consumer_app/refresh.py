"""Which data set queries see: the RESET and READY of all partitions, put together (pure)."""

import msgspec


class Stage(msgspec.Struct):
    """How far one partition is; data sets are counted by its RESETs."""

    begun: int = 0
    """The data set that its messages belong to now."""
    complete: int = 0
    """The newest data set that had its READY."""
    edition: str = ""
    """What the publisher calls that one; its number if it has no name."""
    current: int = 0
    """The data set that queries see."""
    reset_at: int = 0
    """The offset of the newest RESET."""
    start: int = 0
    """The offset of the RESET that began what queries see: all before it is of no use."""


class Refresh(msgspec.Struct):
    """The stages of all partitions.

    RESET and READY stand in every partition. Queries see another data set when all partitions have
    the same edition of it complete, and then in all partitions at once.
    """

    stages: dict[int, Stage] = {}

    def know(self, partitions: list[int]) -> None:
        """Take note of which partitions there are."""
        for partition in partitions:
            self.stages.setdefault(partition, Stage())

    def reset(self, partition: int, offset: int = 0) -> int:
        """Begin a data set in a partition and return it; one that nobody sees yet is given up."""
        stage = self.stages[partition]
        stage.begun += 1
        stage.reset_at = offset
        stage.complete = stage.current
        return stage.begun

    def ready(self, partition: int, edition: str) -> bool:
        """Complete a data set in a partition; say whether queries see another one from now on."""
        stage = self.stages[partition]
        stage.complete, stage.edition = stage.begun, edition or f"#{stage.begun}"
        stages = self.stages.values()
        is_whole = all(one.complete > one.current for one in stages)
        if not is_whole or len({one.edition for one in stages}) > 1:
            return False
        for one in stages:
            one.current, one.start = one.complete, one.reset_at
        return True
