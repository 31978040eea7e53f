"""Explanations of decisions that services made in memory, for tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

from moorage.cli.render import explain
from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.insight.explain.chain import Chain
from moorage.insight.explain.document import document_of
from moorage.insight.explain.explanation import ExplainedTarget, Explanation
from moorage.insight.explain.target_reasons import TargetExplanation
from moorage_schemas.topics import TOPICS


class Log(Protocol):
    """Topics in memory."""

    partitions: int
    now: Any

    def records(self, topic: Any) -> Iterable[Any]:
        """The records of a topic."""


def copy(flow: Log) -> Snapshot:
    """A snapshot of everything that is in the topics now."""
    records = [Kept.of(record.decode()) for topic in TOPICS for record in flow.records(topic)]
    return Snapshot.of(records, partitions=flow.partitions, taken=flow.now)


def said(told: Explanation | TargetExplanation, *, closely: bool = False) -> str:
    """The explanation as text."""
    text = "\n".join(explain.lines(document_of(told), closely=closely))
    assert not re.search(r"T\d\d:\d\d:\d\d\.", text), "a time that is not shown to the second"
    return text


def of(told: Explanation, name: str) -> ExplainedTarget:
    """The part about one target."""
    return next(one for one in told.targets if one.name == name)


def topics(chain: Chain) -> list[str]:
    """The topics of a chain's events. `lost` for an event whose record is missing."""
    return [step.record.topic.short if step.record is not None else "lost" for step in chain.steps]


def chain(told: Explanation, about: str) -> Chain:
    """The chain about something."""
    return next(one for one in told.chains if one.about == about)
