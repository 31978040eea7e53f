"""Taints and tolerations, and the event that carries a target's taints."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef


class TaintEffect(StrEnum):
    """What a taint does to work that does not tolerate it; each dialect knows some of these."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"
    NO_SELECT = "NoSelect"
    PREFER_NO_SELECT = "PreferNoSelect"
    NO_SELECT_IF_NEW = "NoSelectIfNew"


class TolerationOperator(StrEnum):
    """How a toleration compares its value with the taint's; absent means `Equal`."""

    EQUAL = "Equal"
    EXISTS = "Exists"
    GT = "Gt"
    LT = "Lt"


class Taint(Model):
    """A mark on a target; its identity there is (key, effect).

    `effect` is text here, for what an unknown effect means is for the dialect to say.
    """

    key: str
    value: str = ""
    effect: str
    time_added: Timestamp | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """(key, effect): a target has at most one taint of each."""
        return (self.key, self.effect)


class Toleration(Model):
    """What a workload puts up with. Empty `key`, `operator` and `effect` mean what docs/domain.md, "Matching", says.

    `toleration_seconds` counts from the taint's `timeAdded`; zero and negative mean at once.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TaintOrigin(StrEnum):
    """Who asked for a taint."""

    EXPLICIT = "explicit"
    CONDITION = "condition"
    POLICY = "policy"
    SYSTEM = "system"


class TaintRecord(Model):
    """A taint on a target and who asked for it; it stays while any of the origins does."""

    key: str
    value: str = ""
    effect: str
    time_added: Timestamp
    origins: tuple[TaintOrigin, ...] = Field(min_length=1)
    """Sorted; more than one when, say, a person adds what a condition adds too."""

    reason: str = ""
    """The cause in words: the condition and its status, the person's wish, the policy."""

    @property
    def identity(self) -> tuple[str, str]:
        """(key, effect): a target has at most one taint of each."""
        return (self.key, self.effect)

    def as_taint(self) -> Taint:
        """The taint as an API shows it."""
        return Taint(key=self.key, value=self.value, effect=self.effect, time_added=self.time_added)


class HeldTaint(Model):
    """A taint that is wanted and not there yet."""

    key: str
    effect: str
    since: Timestamp
    """Since when it is wanted."""

    reason: str = ""
    """What it waits for: the zone's rate, or the time for which its condition must hold."""


class TargetTainted(Model):
    """The full set of taints of one target, after a change. Topic `taints`, keyed by the target."""

    event_type: ClassVar[str] = "io.moorage.target.tainted.v1"

    target: TargetRef
    target_uid: str = ""
    """The uid of the target's resource, so that a target made again under its name starts clean."""

    generation: int = Field(ge=1)
    """Grows by one with each change; a consumer ignores what is not newer."""

    taints: tuple[TaintRecord, ...] = ()
    """In the order in which they were added."""

    wishes_applied: int = Field(default=0, ge=0)
    """The highest `wish.generation` of the target's resource that is worked in."""

    report_time: Timestamp | None = None
    """When the report that led here was made; empty for a change by a person. For latency only."""

    zone: str = ""
    """Where the target is, `region/zone`; empty in records of earlier versions."""

    incident: int = Field(default=0, ge=0)
    """Of a node: the generation with which its present disruption began; 0 while it is ready."""

    incident_time: Timestamp | None = None
    """When the incident began."""

    held: tuple[HeldTaint, ...] = ()
    """Taints that are wanted and wait."""

    settles_at: Timestamp | None = None
    """When a condition will have held for long enough to add or remove a taint. A set that still says so after that
    time is out of date: whoever cannot take back what he does waits for the next."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels that the system keeps on the target: of a managed cluster, the state of each of its add-ons."""
