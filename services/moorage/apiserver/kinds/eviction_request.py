"""Requests of persons and programs that a pod leaves its node (lifecycle.k8s.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.sections import Pair, Related, Section
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage_schemas.resource import ResourceDeclared


def _target_kind(found: Object) -> str:
    return "Pod" if at(found, "spec", "target", "pod") else "<unset>"


def status_text(found: Object) -> str:
    """Return the state of a request as Kubernetes prints it: `Progressing`, `Failed (EvictionInvalid)`."""
    conditions = {one.get("type"): one for one in at(found, "status", "conditions") or ()}
    for kind in ("TargetEvicted", "Failed"):
        one = conditions.get(kind)
        if one is not None and one.get("status") == "True":
            return f"{kind} ({one.get('reason')})"
    return "Progressing" if at(found, "status", "observedGeneration") else "Pending"


class EvictionRequestKind(Kind[Any]):
    """A request that a pod leaves its node."""

    group = "lifecycle.k8s.io"
    versions = ("v1alpha1",)
    kind = "EvictionRequest"
    model_module = "eviction_requests"
    namespaced = True
    status_shown = True
    order = 185
    apply_order = 900
    columns = (
        TableColumn("TARGET", text("spec", "target", "pod", "name", default="<unset>")),
        TableColumn("TARGET TYPE", of(_target_kind)),
        TableColumn("STATUS", of(status_text)),
        TableColumn("REQUESTER", text("spec", "requester")),
        TableColumn("INTENT", text("spec", "intent")),
        AGE,
    )
    api_columns = (
        TableColumn("Target", text("spec", "target", "pod", "name", default="<unset>")),
        TableColumn("Target Type", of(_target_kind)),
        TableColumn("Status", of(status_text)),
        TableColumn("Requester", text("spec", "requester", default="")),
        TableColumn("Intent", text("spec", "intent", default="")),
        AGE,
    )

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.leaves import status_of

        return status_of(resource.object, records)

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        if at(document, "metadata", "finalizers") and at(document, "spec", "intent") == "Eviction":
            yield "metadata.finalizers: a deleted request counts as withdrawn while finalizers keep it"

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield Pair("Target", f"{_target_kind(found)} {at(found, 'spec', 'target', 'pod', 'name')}")
        yield Pair("Requester", at(found, "spec", "requester"))
        yield Pair("Intent", at(found, "spec", "intent"))
        yield Pair("Status", status_text(found))
        for one in at(found, "status", "conditions") or ():
            yield Pair(str(one.get("type")), f"{one.get('status')} ({one.get('reason')}): {one.get('message')}")


KIND = EvictionRequestKind()
