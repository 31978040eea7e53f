"""Taints and tolerations, and the event that carries a target's taints."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef


class TaintEffect(StrEnum):
    """What a taint does to work that does not tolerate it. Each dialect uses some of these."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"
    NO_SELECT = "NoSelect"
    PREFER_NO_SELECT = "PreferNoSelect"
    NO_SELECT_IF_NEW = "NoSelectIfNew"


class TolerationOperator(StrEnum):
    """How a toleration compares its value with the taint's. An absent operator means `Equal`."""

    EQUAL = "Equal"
    EXISTS = "Exists"
    GT = "Gt"
    LT = "Lt"


class Taint(Model):
    """A mark on a target. A target has at most one taint for each (key, effect).

    `effect` is plain text, because each dialect defines the meaning of an unknown effect.
    """

    key: str
    value: str = ""
    effect: str
    time_added: Timestamp | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """(key, effect). A target has at most one taint for each."""
        return (self.key, self.effect)


class Toleration(Model):
    """Which taints a workload tolerates.

    docs/domain.md, "Matching", defines what an empty `key`, `operator` or `effect` means. `toleration_seconds` counts
    from the taint's `timeAdded`. Zero or a negative number means that the workload is evicted at once.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TaintOrigin(StrEnum):
    """Where a taint comes from: a person (`explicit`), a condition, a policy, or a node's declared state (`system`)."""

    EXPLICIT = "explicit"
    CONDITION = "condition"
    POLICY = "policy"
    SYSTEM = "system"


class TaintRecord(Model):
    """A taint on a target, with its origins. The taint stays as long as it has at least one origin."""

    key: str
    value: str = ""
    effect: str
    time_added: Timestamp
    origins: tuple[TaintOrigin, ...] = Field(min_length=1)
    """Sorted. There are several when, for example, a person adds a taint that a condition adds too."""

    reason: str = ""
    """The cause as text: the condition and its status, the person's taint edit, or the policy."""

    @property
    def identity(self) -> tuple[str, str]:
        """(key, effect). A target has at most one taint for each."""
        return (self.key, self.effect)

    def as_taint(self) -> Taint:
        """The taint in the form that an API shows."""
        return Taint(key=self.key, value=self.value, effect=self.effect, time_added=self.time_added)


class HeldTaint(Model):
    """A taint that should be on the target but has to wait."""

    key: str
    effect: str
    since: Timestamp
    """When the need for the taint began."""

    reason: str = ""
    """What the taint waits for: the zone's rate, or the time for which its condition must hold."""


class TargetTainted(Model):
    """The full set of taints of one target, after a change. Topic `taints`, keyed by the target."""

    event_type: ClassVar[str] = "io.moorage.target.tainted.v1"

    target: TargetRef
    target_uid: str = ""
    """The uid of the target's resource. A target that is deleted and created again under the same name starts clean."""

    generation: int = Field(ge=1)
    """Increases by one with each change; a consumer ignores what is not newer."""

    taints: tuple[TaintRecord, ...] = ()
    """The taints in the order in which they were added."""

    wishes_applied: int = Field(default=0, ge=0)
    """The highest `wishes[].generation` of the target's resource that has been applied."""

    report_time: Timestamp | None = None
    """When the report behind this change was made; empty for a change by a person. Used only to measure latency."""

    zone: str = ""
    """The zone of the target, `region/zone`. Empty in records of earlier versions."""

    incident: int = Field(default=0, ge=0)
    """For a node: the generation at which its present incident began. 0 while the node is ready."""

    incident_time: Timestamp | None = None
    """When the incident began."""

    held: tuple[HeldTaint, ...] = ()
    """Taints that should be on the target but have to wait."""

    settles_at: Timestamp | None = None
    """When a condition will have lasted long enough to add or remove a taint. After that time this set is out of date:
    a reader whose action cannot be undone must wait for the next record."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels that Moorage maintains on the target. For a managed cluster: the state of each of its add-ons."""
