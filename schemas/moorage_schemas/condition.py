"""Conditions of targets: what a probe reports, and what Moorage holds true."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field, StringConstraints

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef, WorkloadRef


class ConditionStatus(StrEnum):
    """The status of a condition, as in Kubernetes."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


ConditionType = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=316,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    ),
]
"""A condition's type: a name such as `Ready`, optionally with a DNS prefix; any is allowed."""


class ConditionReported(Model):
    """What a probe says about one condition of a target. Topic `condition-reports`, keyed by the target.

    Third parties write these; everything in it is checked before it counts.
    """

    event_type: ClassVar[str] = "io.moorage.condition.reported.v1"

    target: TargetRef
    type: ConditionType
    status: ConditionStatus
    reason: str = Field(default="", max_length=1024)
    message: str = Field(default="", max_length=32768)
    observed_time: Timestamp
    """When the probe saw it; orders the reports of one condition."""

    source: str = Field(default="", max_length=253)
    """Who says so, such as `probe/disk`; the CloudEvents source when empty."""

    workload: WorkloadRef | None = None
    """The workload on that target that it is about: a deployer says `Healthy` of what it runs there.
    Empty when it is about the target itself."""


class ConditionChanged(Model):
    """One condition of a target as Moorage holds it. Topic `conditions`, keyed by target and type."""

    event_type: ClassVar[str] = "io.moorage.condition.changed.v1"

    target: TargetRef
    target_uid: str = ""
    """The uid of the target's resource, so that a target made again under its name starts clean."""

    type: ConditionType
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    source: str = ""
    last_transition_time: Timestamp
    """When the status last changed."""

    last_heartbeat_time: Timestamp
    """When it was last reported."""

    generation: int = Field(ge=1)
    """Grows by one with each accepted report; a consumer ignores what is not newer."""

    report_id: str = ""
    """The id of the report that it rests on, so that a report that comes twice counts once.
    Empty when no report says it: the source has fallen silent."""

    accepted_time: Timestamp | None = None
    """When Moorage took up the last report, by its own clock; heartbeats count from here."""

    status_since: Timestamp | None = None
    """When Moorage first held this status true, by its own clock; a time for which it must hold counts from here."""


class WorkloadConditionChanged(ConditionChanged):
    """One condition of a workload on a target. Topic `workload-conditions`, keyed by workload, target and type."""

    event_type: ClassVar[str] = "io.moorage.workload.condition.changed.v1"

    workload: WorkloadRef


HEALTHY: Final = "Healthy"
"""The condition by which a deployer says that a workload runs well where it was placed: True, False or Unknown."""
