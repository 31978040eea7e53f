"""`MachineSet` (machine.openshift.io/v1beta1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, CUSTOM_AGE, Object, TableColumn, of, taints_text, text
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, Values, taint_texts
from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.machines import MachineSet


class MachineSetKind(Kind["MachineSet"]):
    """A set of identical nodes."""

    group = "machine.openshift.io"
    versions = ("v1beta1",)
    kind = "MachineSet"
    plural = "machinesets"
    model_module = "machines"
    cli_names = ("ms",)
    namespaced = True
    order = 130
    status_shown = True
    apply_order = 90
    scaled = True
    columns = (
        TableColumn("DESIRED", text("spec", "replicas", default="1")),
        TableColumn("CURRENT", text("status", "replicas", default="0")),
        TableColumn("READY", text("status", "readyReplicas", default="0")),
        TableColumn("AVAILABLE", text("status", "availableReplicas", default="0")),
        AGE,
        TableColumn("TAINTS", of(lambda found: taints_text(at(found, "spec", "template") or {})), wide=True),
    )
    api_columns = (
        TableColumn("Desired", text("spec", "replicas", default="1"), type="integer"),
        TableColumn("Current", text("status", "replicas", default="0"), type="integer"),
        TableColumn("Ready", text("status", "readyReplicas", default="0"), type="integer"),
        TableColumn("Available", text("status", "availableReplicas", default="0")),
        CUSTOM_AGE,
    )
    counted_status = True

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.machines import MachineIndex

        return (MachineIndex,)

    @override
    def validate(self, resource: MachineSet, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.moorage import validate_machine_set

        return validate_machine_set(resource)

    @override
    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        from moorage.apiserver.rules.machine_sets import with_template

        return with_template(wanted, shown)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        from moorage.apiserver.kinds.node import node_status

        status = found.get("status") or {}
        wanted = at(found, "spec", "replicas")
        there = f"{status.get('replicas', 0)} there, {status.get('readyReplicas', 0)} ready"
        yield Pair("Replicas", f"{1 if wanted is None else wanted} wanted, {there}")
        template = at(found, "spec", "template", "spec") or {}
        yield Values("New nodes get", taint_texts(template.get("taints")))
        yield Values("And labels", [f"{k}={v}" for k, v in (at(template, "metadata", "labels") or {}).items()])
        uid = at(found, "metadata", "uid")
        rows = [
            [
                str(at(one, "metadata", "name")),
                node_status(one),
                age(at(one, "metadata", "creationTimestamp"), now),
                ",".join(taint_texts(at(one, "spec", "taints"))),
            ]
            for one in related.list("Node")
            if any(owner.get("uid") == uid for owner in at(one, "metadata", "ownerReferences") or [])
        ]
        yield Rows(f"Nodes of this set ({len(rows)})", ["NAME", "STATUS", "AGE", "TAINTS"], rows)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.machines import MachineIndex

        index = records.index(MachineIndex)
        present = len(index.machines.get(resource.uid, ()))
        ready = len(index.ready_machines.get(resource.uid, ()))
        return {
            "observedGeneration": resource.object["metadata"].get("generation", 1),
            "replicas": present,
            "fullyLabeledReplicas": present,
            "readyReplicas": ready,
            "availableReplicas": ready,
        }


KIND = MachineSetKind()
