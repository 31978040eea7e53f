"""The controllers that create pods from a template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, ResourceT
from moorage.apiserver.kinds.printing.columns import AGE, LABELS, NONE, Object, TableColumn, of
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, tolerations
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.controllers import Counts
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared


def controller_columns(ready: Callable[[Object], str], scheduled: Callable[[Object], str]) -> tuple[TableColumn, ...]:
    """The columns of a controller.

    Args:
        ready: returns the number of ready pods and of wanted pods.
        scheduled: returns the number of pods that are bound.
    """
    return (
        TableColumn("READY", of(ready)),
        TableColumn("SCHEDULED", of(scheduled)),
        AGE,
        TableColumn("IMAGES", of(_images), wide=True),
        LABELS,
    )


def _ready(found: Object) -> str:
    wanted = at(found, "spec", "replicas")
    return f"{at(found, 'status', 'readyReplicas') or 0}/{1 if wanted is None else wanted}"


def _scheduled(found: Object) -> str:
    return str(at(found, "status", "scheduledReplicas") or 0)


def _images(found: Object) -> str:
    spec = at(found, "spec", "template", "spec") or at(found, "spec") or {}
    return ",".join(str(one.get("image", "")) for one in spec.get("containers") or []) or NONE


def _owners(found: Object) -> set[Any]:
    return {owner.get("uid") for owner in at(found, "metadata", "ownerReferences") or []}


class ControllerKind(Kind[ResourceT]):
    """A controller of the group apps: replicas, a selector, a template."""

    group: ClassVar[str] = "apps"
    namespaced: ClassVar[bool] = True
    in_all: ClassVar[bool] = True
    status_shown: ClassVar[bool] = True
    mirrorable: ClassVar[bool] = True
    columns: ClassVar[tuple[TableColumn, ...]] = controller_columns(_ready, _scheduled)
    counted_status: ClassVar[bool] = True
    shown_zeros: ClassVar[frozenset[str]] = frozenset()
    """The numbers of its status that are shown if they are 0. As in Kubernetes, others are left out then."""

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.controllers import OwnerIndex
        from moorage.apiserver.kinds.status.reported import ReportIndex
        from moorage.apiserver.kinds.status.rollouts import RolloutIndex

        return (OwnerIndex, ReportIndex, RolloutIndex)

    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        """See `Kind`. The number of replicas is written out, because clients such as `kubectl describe` rely on it."""
        spec = document.get("spec")
        if not self.scaled or not isinstance(spec, dict) or spec.get("replicas") is not None:
            return document
        return {**document, "spec": {**spec, "replicas": 1}}

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.validation.workloads import validate_same_selector

        return validate_same_selector(before, after)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        from moorage.apiserver.kinds.pod import pod_status

        if at(found, "spec", "template") is None:
            yield from super().describe(found, related, now)
            return
        ready, scheduled = (column.cell(found, now) for column in self.columns[:2])
        yield Pair("Replicas", f"{ready} ready, {scheduled} scheduled")
        yield tolerations(at(found, "spec", "template", "spec", "tolerations"))
        namespace, uids = str(at(found, "metadata", "namespace")), {at(found, "metadata", "uid")}
        if self.kind == "Deployment":
            sets = [one for one in related.list("ReplicaSet", namespace) if uids & _owners(one)]
            uids |= {at(one, "metadata", "uid") for one in sets}
        pods = [
            [str(at(one, "metadata", "name")), pod_status(one), str(at(one, "spec", "nodeName") or NONE)]
            for one in related.list("Pod", namespace)
            if uids & _owners(one)
        ]
        yield Rows(f"Pods of this {found.get('kind')} ({len(pods)})", ["NAME", "STATUS", "NODE"], pods)

    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        """See `Kind`. The pods of a mirrored controller are made in its cluster, and counted there."""
        from moorage.apiserver.kinds.status.controllers import counts

        if resource.mirrored is not None:
            found: Document | None = resource.object.get("status")
            return found
        return self.without_zeros(self.counted(counts(resource, records), resource, records))

    def without_zeros(self, status: Document) -> Document:
        """A status without those numbers that are not shown if they are 0."""
        return {field: value for field, value in status.items() if value != 0 or field in self.shown_zeros}

    def same(self, document: dict[str, Any], stored: Mapping[str, Any], records: Records) -> dict[str, Any]:
        """See `Kind`. A template that means the same as one that is kept is that one."""
        from moorage.apiserver.kinds.status.rollouts import same_template

        return same_template(document, stored, records)

    def counted(self, counts: Counts, resource: ResourceDeclared, records: Records) -> Document:
        """The status of a controller.

        Args:
            counts: the numbers of its pods.
            resource: the controller.
            records: the latest records.
        """
        return {
            "observedGeneration": resource.object["metadata"].get("generation", 1),
            "replicas": counts.replicas,
            "scheduledReplicas": counts.scheduled,
            "readyReplicas": counts.ready,
            "availableReplicas": counts.ready,
        }
