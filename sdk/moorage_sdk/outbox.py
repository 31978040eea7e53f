"""Reports that wait to be sent. It holds so many, and never loses the newest of a condition."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta

ConditionId = tuple[str, str, str]
"""Target, workload and type."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report under its id."""

    event: ConditionReported
    meta: Meta

    @property
    def condition(self) -> ConditionId:
        """The condition that it is about."""
        return condition_of(self.event)

    @property
    def subject(self) -> str:
        """The condition for people."""
        about = f" {self.event.workload}" if self.event.workload is not None else ""
        return f"{self.event.target}{about} {self.event.type}"


def condition_of(event: ConditionReported) -> ConditionId:
    """The condition that a report is about."""
    return str(event.target), str(event.workload or ""), event.type


class Outbox:
    """Reports in the order in which they were made.

    When more than `most` wait, the one that was followed first by a newer report of its condition is dropped. The
    newest report of each condition always stays, so the outbox holds `most` reports, or one for each condition if
    there are more conditions than that.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._waiting: OrderedDict[int, Report] = OrderedDict()
        self._newest: dict[ConditionId, int] = {}
        self._superseded: deque[int] = deque()
        self.dropped = 0
        """The number of reports that were dropped so far."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, report: Report) -> None:
        """Add a report, and drop another one if there are too many."""
        condition = report.condition
        number, earlier = self._count, self._newest.get(condition)
        self._count += 1
        self._waiting[number] = report
        self._newest[condition] = number
        if earlier is not None:
            self._superseded.append(earlier)
        while len(self._waiting) > self._most and self._superseded:
            if self._waiting.pop(self._superseded.popleft(), None) is not None:
                self.dropped += 1

    def waits(self, condition: ConditionId) -> bool:
        """Whether a report of a condition waits."""
        return condition in self._newest

    def first(self, count: int) -> list[tuple[int, Report]]:
        """The first reports, with their numbers. They stay until they are removed."""
        return list(islice(self._waiting.items(), count))

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove reports that have been sent."""
        for number in numbers:
            report = self._waiting.pop(number, None)
            if report is not None and self._newest.get(report.condition) == number:
                del self._newest[report.condition]
        while self._superseded and self._superseded[0] not in self._waiting:
            self._superseded.popleft()
