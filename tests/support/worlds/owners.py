"""A flow whose owners begin anew after a failure, as those on Kafka do."""

from __future__ import annotations

from typing import Any

from tests.support.worlds.flow import Flow

from moorage.insight.copy.stack import CopyTask
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.service import Input
from moorage_schemas.topics import Topic


class Owners(Flow):
    """A flow whose owners begin anew after a failure, as those on Kafka do."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.failures: list[str] = []

    def step(self, service: str, partition: int, **options: Any) -> bool:
        owner = self._owner(service, partition)
        try:
            return super().step(service, partition, **options)
        except StartAfresh as error:
            self.failures.append(f"{service} {partition} at {self.now}: {error}")
            self._again(owner)
            return True

    def _commit(self, owner: CopyTask, decision: BatchDecision) -> None:
        super()._commit(owner, decision)
        if decision.afresh:
            self._again(owner)

    def table(self, topic: Topic) -> dict[str, Any]:
        """The latest event of each key, as those who can read them see them."""
        read = [one for one in (record.decode() for record in self.records(topic)) if isinstance(one, Input)]
        return {one.key: one.event for one in read if one.event is not None}

    def _again(self, owner: CopyTask) -> None:
        name, partition = owner.service.name, owner.partition
        owner.followed.update(dict.fromkeys(owner.followed, 0))
        committed = {topic: self._committed.get((name, topic.short, partition)) for topic in owner.service.sources}
        view = self._view(name).view if owner.service.globals else None
        self._drive(owner, owner.engine.restore(committed, view))
