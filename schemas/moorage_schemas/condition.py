"""Conditions of targets: the reports of probes, and the resulting conditions."""

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
"""A condition's type: a name such as `Ready`, optionally with a DNS prefix. Any type is allowed."""


class ConditionReported(Model):
    """A probe's report about one condition of a target. Topic `condition-reports`, keyed by the target.

    Third parties write these records, so every field is checked before the report counts.
    """

    event_type: ClassVar[str] = "io.moorage.condition.reported.v1"

    target: TargetRef
    type: ConditionType
    status: ConditionStatus
    reason: str = Field(default="", max_length=1024)
    message: str = Field(default="", max_length=32768)
    observed_time: Timestamp
    """When the probe observed the condition. Orders the reports of one condition."""

    source: str = Field(default="", max_length=253)
    """The source of the report, such as `probe/disk`. If empty, the CloudEvents source is used."""

    workload: WorkloadRef | None = None
    """The workload on that target that the report is about. A deployer reports `Healthy` for each workload that it runs
    there. Empty if the report is about the target itself."""

    workload_uid: Annotated[str, Field(max_length=253, exclude_if=lambda uid: not uid)] = ""
    """The `uid` of the binding for which the workload runs, or ran. Empty if the report names no binding."""

    binding_generation: Annotated[int, Field(ge=0, exclude_if=lambda number: not number)] = 0
    """The `generation` of that binding; 0 if the report names none. A deployer names its binding in every report. With
    that it undertakes to acknowledge the binding's eviction: the binding stays until it reports `Evicted`."""


class ConditionChanged(Model):
    """The present state of one condition of a target. Topic `conditions`, keyed by target and type."""

    event_type: ClassVar[str] = "io.moorage.condition.changed.v1"

    target: TargetRef
    target_uid: str = ""
    """The uid of the target's resource. A target that is deleted and created again under the same name starts clean."""

    type: ConditionType
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    source: str = ""
    last_transition_time: Timestamp
    """When the status last changed."""

    last_heartbeat_time: Timestamp
    """When the condition was last reported, as far as it is recorded. A report that changes nothing but times is not
    always recorded, so the last report may be up to five minutes later. Silence is not judged by this time: a condition
    whose source has fallen silent becomes Unknown."""

    generation: int = Field(ge=1)
    """Increases by one with each record; a consumer ignores what is not newer."""

    report_id: str = ""
    """The id of the report that this record is based on, so that a report that arrives twice counts once. Empty if the
    record is based on no report, because the source has fallen silent."""

    earlier_reports: Annotated[str, Field(exclude_if=lambda earlier: not earlier)] = ""
    """Reports with the same time that counted before `reportId`, oldest first: hashes of 16 hexadecimal digits,
    separated by spaces. A sender that repeats them changes nothing. Left out if there are none."""

    accepted_time: Timestamp | None = None
    """When Moorage accepted the report of this record, by its own clock. Grace periods count from the last report of
    the source, which may be later by `unrecordedHeartbeatsMs`."""

    status_since: Timestamp | None = None
    """When Moorage first recorded this status, by its own clock. The time for which a status must last (flap damping)
    counts from this time."""

    unrecorded_heartbeats_ms: int = Field(default=0, ge=0)
    """For how many milliseconds after `acceptedTime` further reports of the same source about the target need not be
    recorded when they change nothing but times. 0 means that all of them are recorded."""


class WorkloadConditionChanged(ConditionChanged):
    """One condition of a workload on a target. Topic `workload-conditions`, keyed by workload, target and type."""

    event_type: ClassVar[str] = "io.moorage.workload.condition.changed.v1"

    workload: WorkloadRef
    workload_uid: Annotated[str, Field(exclude_if=lambda uid: not uid)] = ""
    """The `uid` of the binding that the report named; empty if it named none."""

    binding_generation: Annotated[int, Field(ge=0, exclude_if=lambda number: not number)] = 0
    """The `generation` of that binding; 0 if the report named none. A report about an earlier generation of the same
    uid is ignored."""


HEALTHY: Final = "Healthy"
"""The condition with which a deployer reports whether a workload runs well on its target: True, False or Unknown."""

EVICTED: Final = "Evicted"
"""The condition with which a deployer acknowledges an eviction of exactly one binding. True: the work is gone. False:
it is not, because the deployer could not remove it (reason `Failed`) or would not (reason `Refused`)."""

FAILED: Final = "Failed"
REFUSED: Final = "Refused"
"""The reasons of `Evicted` False."""
