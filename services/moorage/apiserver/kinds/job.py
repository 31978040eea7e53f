"""`Job` (batch/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.families.controllers import ControllerKind, controller_columns
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of
from moorage.apiserver.kinds.printing.kubernetes import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    job_completions,
    job_duration,
    job_state,
)
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.controllers import Counts
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared


_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"


def _ready(found: Object) -> str:
    wanted = at(found, "spec", "parallelism")
    return f"{at(found, 'status', 'ready') or 0}/{1 if wanted is None else wanted}"


def _scheduled(found: Object) -> str:
    return str(at(found, "status", "scheduledReplicas") or 0)


class JobKind(ControllerKind[Any]):
    """A job: pods that run to their end."""

    group = "batch"
    kind = "Job"
    plural = "jobs"
    model_module = "workloads"
    order = 80
    shown_zeros = frozenset({"ready"})
    field_selectors: ClassVar[Mapping[str, str]] = {"status.successful": "0"}
    columns = controller_columns(_ready, _scheduled)
    api_columns = (
        TableColumn("Status", of(job_state)),
        TableColumn("Completions", of(job_completions)),
        TableColumn("Duration", job_duration),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_job

        return validate_job(document)

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_job_update

        return validate_job_update(before, after)

    def identified(self, document: Document) -> Document:
        """A job with labels that select its own pods, and the selector, unless the writer selects them by hand.

        A job without labels has those of its pods.

        See Kubernetes, "Job": `manualSelector`.
        """
        spec = document.get("spec") or {}
        if spec.get("manualSelector") or spec.get("selector"):
            return document
        metadata, template = document["metadata"], spec.get("template") or {}
        within = template.get("metadata") or {}
        own = {
            **dict.fromkeys((_CONTROLLER_UID, _CONTROLLER_UID.rpartition("/")[2]), metadata["uid"]),
            **dict.fromkeys((_JOB_NAME, _JOB_NAME.rpartition("/")[2]), metadata["name"]),
        }
        labels = {**(within.get("labels") or {}), **own}
        labelled = {**template, "metadata": {**within, "labels": labels}}
        metadata = metadata if metadata.get("labels") else {**metadata, "labels": labels}
        selector = {"matchLabels": {_CONTROLLER_UID: metadata["uid"]}}
        return {**document, "metadata": metadata, "spec": {**spec, "selector": selector, "template": labelled}}

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        return {"active": counts.replicas, "ready": counts.ready, "scheduledReplicas": counts.scheduled}


KIND = JobKind()
