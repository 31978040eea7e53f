"""Targets that carry taints, `Node` (v1), and `MachineSet` (machine.openshift.io/v1beta1), a set of identical nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, ResourceT
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    CUSTOM_AGE,
    LABELS,
    NONE,
    Object,
    TableColumn,
    label,
    of,
    taints,
    taints_text,
    text,
)
from moorage.apiserver.kinds.printing.kubernetes import UNKNOWN, address, node_readiness
from moorage.apiserver.kinds.printing.sections import (
    OPEN,
    Pair,
    Related,
    Rows,
    Section,
    Values,
    conditions,
    evictions,
    taint_texts,
    time_and_age,
)
from moorage.decide.disruption.object_names import shown_zone
from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.object_texts import node_status, taint_text, unreported, zone_name, zone_state
from moorage.decide.kubernetes.unstructured import at, name_of, namespace_of, part
from moorage_schemas.times import parse_time

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.node import Node
    from moorage_schemas.taint import Taint, TargetTainted


_DECIDED: Final = frozenset({"conditions", "heldTaints"})
"""Parts of a target's status that services determine."""


def with_note(status: str, note: str) -> str:
    """Return a status, followed by a note if there is one."""
    return f"{status}: {note}" if note else status


def tainted(found: Object, related: Related, now: datetime) -> Iterator[Section]:
    """Yield the taints of a target with their origins, and those that are held."""
    who = {"kind": found.get("kind"), "name": at(found, "metadata", "name")}
    origins = {
        (one["status"]["key"], one["status"]["effect"]): one["status"]
        for one in related.list("Taint")
        if one["status"]["target"] == who and not one["status"].get("held")
    }
    rows = []
    for taint in at(found, "spec", "taints") or []:
        known = origins.get((taint.get("key"), taint.get("effect")), {})
        added = taint.get("timeAdded") or known.get("timeAdded") or ""
        origin = ",".join(known.get("origins") or []) or "being worked in"
        rows.append([taint_text(taint), origin, time_and_age(added, now), known.get("reason", "")])
    yield Rows("Taints", ["TAINT", "ORIGIN", "SINCE", "REASON"], rows)
    held = [
        [taint_text(one), time_and_age(one.get("since"), now), str(one.get("reason") or "")]
        for one in at(found, "status", "heldTaints") or []
    ]
    if held:
        yield Rows("Held taints", ["TAINT", "WANTED SINCE", "WAITS FOR"], held)


def offered(found: Object) -> Iterator[Section]:
    """Yield the capacity of a target, and the part of it that workloads may use."""
    for field in ("capacity", "allocatable"):
        if amounts := at(found, "status", field):
            yield Values(field.title(), [f"{key}: {value}" for key, value in amounts.items()])


def leaving(found: Object, related: Related, now: datetime) -> Section:
    """Return the evictions from a target that are not over."""
    who = (found.get("kind"), at(found, "metadata", "name"))
    return evictions(
        [
            one
            for one in related.list("Eviction")
            if (at(one, "status", "target", "kind"), at(one, "status", "target", "name")) == who
            and one["status"]["state"] in OPEN
        ],
        now,
    )


class Target(Kind[ResourceT]):
    """A kind that carries taints.

    Its resources (`status.capacity`, `status.allocatable`) are declared. Its conditions are not.
    """

    status_declared: ClassVar[bool] = True
    in_own_all: ClassVar[bool] = True
    mirrorable: ClassVar[bool] = True

    @override
    def declared(self, document: dict[str, Any]) -> dict[str, Any]:
        status = {k: v for k, v in (document.get("status") or {}).items() if k not in _DECIDED}
        found = {k: v for k, v in document.items() if k != "status"} | ({"status": status} if status else {})
        spec = {key: value for key, value in (found.get("spec") or {}).items() if key != "taints"}
        return {**found, "spec": spec}

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status import targets

        resource = records.resources.get(object_id.key)
        return targets.shown(resource, records) if resource is not None else None

    @override
    def taints(self, resource: ResourceDeclared, records: Records) -> TargetTainted | None:
        from moorage.apiserver.kinds.status import targets

        return targets.taints(resource, records)

    @override
    def spec_taints(self, resource: ResourceT) -> Sequence[Taint]:
        taints: Sequence[Taint] | None = getattr(resource, "spec").taints  # noqa: B009 - all of them have one
        return taints or ()

    @override
    def notes(self, document: Mapping[str, Any], sent: Mapping[str, Any], records: Records) -> Iterator[str]:
        """Yield the sent taints that were not applied, and the sent times that were not used."""
        from moorage.decide.taints.desired.from_conditions import belongs_to_state

        there = {(one["key"], one["effect"]): one for one in part(document, "spec").get("taints") or ()}
        for number, taint in enumerate(part(sent, "spec").get("taints") or ()):
            key, effect, value = taint.get("key") or "", taint.get("effect") or "", taint.get("value") or ""
            is_applied = (key, effect) in there and (there[key, effect].get("value") or "") == value
            if belongs_to_state(document, key, effect, value) and not is_applied:
                why = f"is determined by the state of the {self.kind}"
                yield f"spec.taints[{number}]: {key}:{effect} {why}, and was not applied"
            time = taint.get("timeAdded")
            if is_applied and time and (why := self.why_unused(time, there[key, effect]["timeAdded"])):
                yield f"spec.taints[{number}].timeAdded {why}: {time!r} was not used"

    def why_unused(self, sent: str, shown: str) -> str:
        """Return why a taint does not have the `timeAdded` that was sent. Empty if it has, or keeps the one it had."""
        return "is in the future" if parse_time(sent) > parse_time(shown) else ""


def _identities(document: Mapping[str, Any]) -> dict[tuple[str, str], None]:
    """Return the key and effect of each taint of a target."""
    taints = part(document, "spec").get("taints") or ()
    return {(str(one.get("key") or ""), str(one.get("effect") or "")): None for one in taints}


_ROLE: Final = "node-role.kubernetes.io/"
_ROLE_OLDER: Final = "kubernetes.io/role"


def _roles(found: Object) -> str:
    labels = at(found, "metadata", "labels") or {}
    roles = {label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE)}
    roles.add(str(labels.get(_ROLE_OLDER) or ""))
    return ",".join(sorted(role for role in roles if role)) or NONE


def _zone(found: Object, related: Related) -> Section:
    name = zone_name(found)
    known = {at(one, "status", "zone"): one for one in related.list("Zone")}
    state = f" ({zone_state(known[name])})" if name in known else ""
    return Pair("Zone", f"{shown_zone(name)}{state}")


class NodeKind(Target["Node"]):
    """A node: a target that carries pods."""

    kind = "Node"
    model_module = "node"
    short_names = ("no",)
    container_subresources = ("proxy",)
    field_selectors: ClassVar[Mapping[str, str]] = {"spec.unschedulable": "false"}
    namespaced = False
    order = 20
    apply_order = 80
    columns = (
        TableColumn("STATUS", of(node_status)),
        TableColumn("ROLES", of(_roles)),
        AGE,
        TableColumn("TAINTS", taints(2)),
        TableColumn("ZONE", label("topology.kubernetes.io/zone"), wide=True),
        TableColumn("ALL-TAINTS", taints(None), wide=True),
        LABELS,
    )
    api_columns = (
        TableColumn("Status", of(node_readiness)),
        TableColumn("Roles", of(_roles)),
        AGE,
        TableColumn("Version", text("status", "nodeInfo", "kubeletVersion", default="")),
        TableColumn("Internal-IP", address("InternalIP"), wide=True),
        TableColumn("External-IP", address("ExternalIP"), wide=True),
        TableColumn("OS-Image", text("status", "nodeInfo", "osImage", default=UNKNOWN), wide=True),
        TableColumn("Kernel-Version", text("status", "nodeInfo", "kernelVersion", default=UNKNOWN), wide=True),
        TableColumn(
            "Container-Runtime", text("status", "nodeInfo", "containerRuntimeVersion", default=UNKNOWN), wide=True
        ),
    )

    @override
    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        from moorage.apiserver.rules.admission_defaults import declare_external_cloud

        return declare_external_cloud(document) if gates.external_cloud else document

    @override
    def taints_of_new(self, resource: Node) -> Sequence[Taint]:
        from moorage.apiserver.rules.admission_defaults import role_taints

        return role_taints(resource.metadata.labels, resource.spec.taints or ())

    @override
    def withheld(
        self, before: Mapping[str, Any], wanted: Mapping[str, Any], document: Mapping[str, Any]
    ) -> Iterator[str]:
        # Of a cluster, a client-side apply sends all taints, so that it would remove these each time.
        stays = _identities(document)
        removed = [one for one in _identities(before) if one in stays and one not in _identities(wanted)]
        for key, effect in removed:
            why = f"is determined by the state of the {self.kind} or by a policy"
            yield f"spec.taints: {key}:{effect} {why}, and was not removed"

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterator[str]:
        if at(document, "spec", "externalID"):
            yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        from moorage.apiserver.kinds.pod import pod_status

        name = at(found, "metadata", "name")
        yield Pair("Roles", _roles(found))
        yield Pair("Status", with_note(node_status(found), unreported(found)))
        yield Pair("Unschedulable", str(bool(at(found, "spec", "unschedulable"))).lower())
        yield _zone(found, related)
        yield from tainted(found, related, now)
        yield conditions(found)
        yield from offered(found)
        pods = [
            [namespace_of(one), name_of(one), pod_status(one)]
            for one in related.list("Pod")
            if at(one, "spec", "nodeName") == name
        ]
        yield Rows(f"Pods ({len(pods)})", ["NAMESPACE", "NAME", "STATUS"], pods)
        yield leaving(found, related, now)


class MachineSetKind(Kind[Any]):
    """A set of identical nodes."""

    group = "machine.openshift.io"
    versions = ("v1beta1",)
    kind = "MachineSet"
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

    @override
    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        from moorage.apiserver.rules.machine_sets import with_template

        return with_template(wanted, shown)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
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
                name_of(one),
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


KIND = NodeKind()
KINDS = (KIND, MachineSetKind())
