"""ControllerManager that create pods from a template (apps/v1, batch/v1, v1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, ResourceT
from moorage.apiserver.kinds.printing.columns import AGE, LABELS, NONE, Cell, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.kubernetes import (
    CONTAINERS,
    IMAGES,
    REPLICA_COLUMNS,
    SELECTOR,
    job_completions,
    job_duration,
    job_state,
    labels_text,
    number,
    ready_of,
)
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, tolerations
from moorage.decide.kubernetes.unstructured import at, name_of, namespace_of

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.controllers import Counts
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage_schemas.resource import ResourceDeclared


_READY: Final = ready_of("readyReplicas", "replicas")
_SCHEDULED: Final = text("status", "scheduledReplicas", default="0")


def _columns(ready: Cell, scheduled: Cell = _SCHEDULED) -> tuple[TableColumn, ...]:
    """Return the columns of a controller."""
    return (
        TableColumn("READY", ready),
        TableColumn("SCHEDULED", scheduled),
        AGE,
        TableColumn("IMAGES", of(_images), wide=True),
        LABELS,
    )


def _images(found: Object) -> str:
    spec = at(found, "spec", "template", "spec") or at(found, "spec") or {}
    return ",".join(str(one.get("image", "")) for one in spec.get("containers") or []) or NONE


def _owners(found: Object) -> set[Any]:
    return {owner.get("uid") for owner in at(found, "metadata", "ownerReferences") or []}


class ControllerKind(Kind[ResourceT]):
    """A controller of the group apps: replicas, a selector, a template."""

    group: ClassVar[str] = "apps"
    model_module: ClassVar[str] = "workloads"
    namespaced: ClassVar[bool] = True
    in_all: ClassVar[bool] = True
    status_shown: ClassVar[bool] = True
    mirrorable: ClassVar[bool] = True
    columns: ClassVar[tuple[TableColumn, ...]] = _columns(_READY)
    counted_status: ClassVar[bool] = True
    shown_zeros: ClassVar[frozenset[str]] = frozenset()
    """The numbers of its status that are shown if they are 0. As in Kubernetes, others are left out then."""

    @override
    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        # The number of replicas is written out, because clients such as `kubectl describe` rely on it.
        spec = document.get("spec")
        if not self.scaled or not isinstance(spec, dict) or spec.get("replicas") is not None:
            return document
        return {**document, "spec": {**spec, "replicas": 1}}

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        from moorage.apiserver.kinds.pod import pod_status

        if at(found, "spec", "template") is None:
            yield from super().describe(found, related, now)
            return
        ready, scheduled = (column.cell(found, now) for column in self.columns[:2])
        yield Pair("Replicas", f"{ready} ready, {scheduled} scheduled")
        yield tolerations(at(found, "spec", "template", "spec", "tolerations"))
        namespace, uids = namespace_of(found), {at(found, "metadata", "uid")}
        if self.kind == "Deployment":
            sets = [one for one in related.list("ReplicaSet", namespace) if uids & _owners(one)]
            uids |= {at(one, "metadata", "uid") for one in sets}
        pods = [
            [name_of(one), pod_status(one), str(at(one, "spec", "nodeName") or NONE)]
            for one in related.list("Pod", namespace)
            if uids & _owners(one)
        ]
        yield Rows(f"Pods of this {found.get('kind')} ({len(pods)})", ["NAME", "STATUS", "NODE"], pods)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        # The pods of a mirrored controller are made in its cluster, and counted there.
        from moorage.apiserver.kinds.status.controllers import counts

        if resource.mirrored is not None:
            found: Document | None = resource.object.get("status")
            return found
        return self.without_zeros(self.counted(counts(resource, records), resource, records))

    def without_zeros(self, status: Document) -> Document:
        """Return a status without those numbers that are not shown if they are 0."""
        return {field: value for field, value in status.items() if value != 0 or field in self.shown_zeros}

    @override
    def same(self, document: dict[str, Any], stored: Mapping[str, Any], records: Records) -> dict[str, Any]:
        # A template that means the same as one that is kept is that one.
        from moorage.apiserver.kinds.status.rollouts import same_template

        return same_template(document, stored, records)

    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        """Return the status of a controller."""
        return {
            "observedGeneration": resource.object["metadata"].get("generation", 1),
            "replicas": counts.replicas,
            "scheduledReplicas": counts.scheduled,
            "readyReplicas": counts.ready,
            "availableReplicas": counts.ready,
        }


class ReplicationControllerKind(ControllerKind[Any]):
    """A replication controller: the older form of a replica set, whose selector consists of labels alone."""

    group = ""
    kind = "ReplicationController"
    short_names = ("rc",)
    order = 35
    scaled = True
    shown_zeros = frozenset({"replicas"})
    field_selectors: ClassVar[Mapping[str, str]] = {"status.replicas": "0"}
    api_columns = REPLICA_COLUMNS

    @override
    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        # Its selector stays, also if the labels of its template change later.
        from moorage.apiserver.rules.field_defaults import selecting_by_template

        return selecting_by_template(super().created(document, gates))

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        return {**super().counted(counts, resource, records), "fullyLabeledReplicas": counts.replicas}


class DeploymentKind(ControllerKind[Any]):
    """A deployment: pods of one template, which may run anywhere."""

    kind = "Deployment"
    short_names = ("deploy",)
    order = 40
    scaled = True
    api_columns = (
        TableColumn("Ready", _READY),
        number("Up-to-date", "status", "updatedReplicas")._replace(type="string"),
        number("Available", "status", "availableReplicas")._replace(type="string"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.rollouts import with_revision

        resource, found = records.resources.get(object_id.key), super().shown(object_id, records)
        if found is None or resource is None or resource.mirrored is not None:
            return found
        return with_revision(found, records)

    @override
    def without_decided(self, document: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        # The number of the present template is not kept in the deployment.
        from moorage.apiserver.kinds.status.rollouts import without_revision

        return without_revision(document, stored)

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        from moorage.apiserver.kinds.status.rollouts import deployment_conditions, updated

        new = updated(resource, records)
        return {
            **super().counted(counts, resource, records),
            "updatedReplicas": new.replicas,
            "unavailableReplicas": counts.replicas - counts.ready,
            "conditions": deployment_conditions(resource, counts, new),
        }


class ReplicaSetKind(ControllerKind[Any]):
    """A replica set: a number of pods of one template."""

    kind = "ReplicaSet"
    short_names = ("rs",)
    order = 50
    scaled = True
    shown_zeros = frozenset({"replicas"})
    api_columns = REPLICA_COLUMNS

    @override
    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        # While a deployment has the set, its spec is the deployment's. Without one it is on its own.
        from moorage.apiserver.kinds.status.rollouts import made_by_deployment

        if made_by_deployment(wanted):
            return {**wanted, "spec": {**shown["spec"], "replicas": 0}}
        return wanted

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.rollouts import made_by_deployment, shown_replica_set

        resource, found = records.resources.get(object_id.key), super().shown(object_id, records)
        if found is None or not made_by_deployment(found) or (resource is not None and resource.mirrored is not None):
            return found
        made = shown_replica_set(found, records)
        return {**made, "status": self.without_zeros(made["status"])}


class StatefulSetKind(ControllerKind[Any]):
    """A stateful set: its pods keep their names."""

    kind = "StatefulSet"
    short_names = ("sts",)
    order = 60
    scaled = True
    shown_zeros = frozenset({"availableReplicas", "collisionCount", "replicas"})
    label_names = True
    api_columns = (TableColumn("Ready", _READY), AGE, CONTAINERS, IMAGES)

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        from moorage.apiserver.kinds.status.rollouts import revisions, updated

        current, update = revisions(resource, records)
        new = updated(resource, records).replicas
        return {
            **super().counted(counts, resource, records),
            "updatedReplicas": new,
            "currentReplicas": new if current == update else counts.replicas - new,
            "collisionCount": 0,
            "currentRevision": current,
            "updateRevision": update,
        }


_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""The annotation by which Kubernetes counts the templates of a daemon set."""


def _with_template_generation(document: dict[str, Any], number: int) -> dict[str, Any]:
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(number)}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def _daemon_ready(found: Object) -> str:
    return f"{at(found, 'status', 'numberReady') or 0}/{at(found, 'status', 'desiredNumberScheduled') or 0}"


class DaemonSetKind(ControllerKind[Any]):
    """A daemon set: one pod on every node that fits."""

    kind = "DaemonSet"
    short_names = ("ds",)
    order = 70
    shown_zeros = frozenset({"currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"})
    columns = _columns(of(_daemon_ready), text("status", "currentNumberScheduled", default="0"))
    api_columns = (
        number("Desired", "status", "desiredNumberScheduled"),
        number("Current", "status", "currentNumberScheduled"),
        number("Ready", "status", "numberReady"),
        number("Up-to-date", "status", "updatedNumberScheduled"),
        number("Available", "status", "numberAvailable"),
        TableColumn(
            "Node Selector", of(lambda found: labels_text(at(found, "spec", "template", "spec", "nodeSelector")))
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    @override
    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        return _with_template_generation(super().created(document, gates), 1)

    @override
    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        from moorage.apiserver.rules.field_defaults import with_field_defaults

        # Only a changed template changes the number of the template.
        known = str((at(shown, "metadata", "annotations") or {}).get(_TEMPLATE_GENERATION, ""))
        before = int(known) if known.isdecimal() else 0
        wanted = with_field_defaults(wanted)
        is_other = at(wanted, "spec", "template") != at(with_field_defaults({**shown}), "spec", "template")
        return _with_template_generation(wanted, before + is_other or 1)

    @override
    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        from moorage.apiserver.kinds.status.daemon_sets import DaemonIndex
        from moorage.decide.scheduling.nodes.daemon_sets import DaemonCounts

        found = records.index(DaemonIndex).counts(resource, records)
        if found is None:  # its replicas on clusters, which their deployers have made there
            there = counts.scheduled
            found = DaemonCounts(counts.replicas, there, 0, counts.ready, counts.ready, there)
        return {
            "observedGeneration": resource.object["metadata"].get("generation", 1),
            "desiredNumberScheduled": found.desired,
            "currentNumberScheduled": found.current,
            "numberReady": found.ready,
            "numberAvailable": found.available,
            "numberUnavailable": found.unavailable,
            "updatedNumberScheduled": found.updated,
            "numberMisscheduled": found.misscheduled,
        }


_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"


class JobKind(ControllerKind[Any]):
    """A job: pods that run to their end."""

    group = "batch"
    kind = "Job"
    order = 80
    shown_zeros = frozenset({"ready"})
    field_selectors: ClassVar[Mapping[str, str]] = {"status.successful": "0"}
    columns = _columns(ready_of("ready", "parallelism"))
    api_columns = (
        TableColumn("Status", of(job_state)),
        TableColumn("Completions", of(job_completions)),
        TableColumn("Duration", job_duration),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    def identified(self, document: Document) -> Document:
        """Return a job with labels that select its own pods, and the selector, unless the writer selects them by hand.

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


REPLICA_SET = ReplicaSetKind()
KINDS = (ReplicationControllerKind(), DeploymentKind(), REPLICA_SET, StatefulSetKind(), DaemonSetKind(), JobKind())
