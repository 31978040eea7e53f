"""Up to where everything of a partition has been delivered or given up."""

from __future__ import annotations

from collections import deque


class Position:
    """The position of a partition.

    Args:
        offset: the next offset to read.
    """

    def __init__(self, offset: int) -> None:
        self.next = offset
        """The next offset to read. Records below it have been read already."""

        self._open: deque[int] = deque()
        self._over: set[int] = set()

    @property
    def committable(self) -> int:
        """The offset below which everything is over."""
        while self._open and self._open[0] in self._over:
            self._over.discard(self._open.popleft())
        return self._open[0] if self._open else self.next

    def read(self, offset: int) -> bool:
        """Note that a record was read. Returns whether it is a new one."""
        if offset < self.next:
            return False
        self.next = offset + 1
        return True

    def begin(self, offset: int) -> None:
        """Note that the record at an offset is on its way. It was the last to be read."""
        self._open.append(offset)

    def end(self, offset: int) -> None:
        """Note that the record at an offset has been delivered or given up."""
        self._over.add(offset)
