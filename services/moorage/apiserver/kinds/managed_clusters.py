"""OCM's clusters, their sets and add-ons (open-cluster-management.io), and the leases of add-ons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.node import Target, offered, tainted
from moorage.apiserver.kinds.placement import decided, group_text, placement_of
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    CUSTOM_AGE,
    LABELS,
    NONE,
    Object,
    TableColumn,
    condition,
    condition_field,
    label,
    of,
    selector_text,
    since,
    taints,
    text,
)
from moorage.apiserver.kinds.printing.kubernetes import of_condition
from moorage.apiserver.kinds.printing.sections import (
    Pair,
    Related,
    Rows,
    Section,
    Values,
    conditions,
    time_and_age,
)
from moorage.decide.kubernetes.object_texts import condition_status
from moorage.decide.kubernetes.unstructured import at, name_of, namespace_of, part
from moorage_schemas.resources.names import GLOBAL_SET, MANAGED_CLUSTER_AVAILABLE, SET_LABEL
from moorage_schemas.times import parse_time

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.managed import ManagedCluster
    from moorage_schemas.taint import Taint


def available(found: Object) -> str:
    """Return whether a managed cluster is available: `True`, `False` or `Unknown`."""
    return condition_status(found, MANAGED_CLUSTER_AVAILABLE) or "Unknown"


def sets(related: Related) -> ManagedSets:
    """Return the sets of managed clusters."""
    from pydantic import ValidationError

    from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets
    from moorage_schemas.resources.managed import ManagedClusterSet

    found = ManagedSets()
    for one in related.list("ManagedClusterSet"):
        head = {"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet"}
        try:
            made = ManagedClusterSet.model_validate({**head, **one})
        except ValidationError:  # it is from a newer version of Moorage
            continue
        found.put(made.metadata.name, made.spec)
    return found


def _accepted(found: Object) -> str:
    return str(bool(at(found, "spec", "hubAcceptsClient"))).lower()


def _urls(found: Object) -> str:
    configs = at(found, "spec", "managedClusterClientConfigs") or []
    return ",".join(str(one.get("url")) for one in configs if one.get("url")) or NONE


def _first_url(found: Object) -> str:
    """Return the first address: a column of a custom resource shows one value."""
    return _urls(found).partition(",")[0].replace(NONE, "")


def _same_time(one: str, other: str) -> bool:
    """Return whether two texts are the same instant. A text that is not a time equals no other."""
    try:
        return bool(parse_time(one) == parse_time(other))
    except ValueError:
        return False


class ManagedClusterKind(Target["ManagedCluster"]):
    """A cluster that OCM's placements choose."""

    group = "cluster.open-cluster-management.io"
    kind = "ManagedCluster"
    model_module = "managed"
    short_names: ClassVar[tuple[str, ...]] = ("mcl", "mcls")
    namespaced = False
    order = 200
    apply_order = 140
    columns = (
        TableColumn("HUB ACCEPTED", of(_accepted)),
        TableColumn("MANAGED CLUSTER URLS", of(_urls)),
        TableColumn("JOINED", condition("ManagedClusterJoined")),
        TableColumn("AVAILABLE", of(available)),
        AGE,
        TableColumn("CLUSTER SET", label(SET_LABEL), wide=True),
        TableColumn("TAINTS", taints(None), wide=True),
        LABELS,
    )
    api_columns = (
        TableColumn(
            "Hub Accepted",
            of(lambda found: "" if at(found, "spec", "hubAcceptsClient") is None else _accepted(found)),
            type="boolean",
        ),
        TableColumn("Managed Cluster URLs", of(_first_url)),
        of_condition("Joined", "ManagedClusterJoined"),
        of_condition("Available", MANAGED_CLUSTER_AVAILABLE),
        CUSTOM_AGE,
    )

    @override
    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        from moorage.apiserver.rules.admission_defaults import admit_managed_cluster

        return admit_managed_cluster(document)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        name = name_of(found)
        yield Pair("Hub accepts", _accepted(found))
        known, labels = sets(related), at(found, "metadata", "labels") or {}
        yield Pair("Cluster sets", ",".join(sorted(known.of(labels) - {GLOBAL_SET})))
        if missing := known.missing(labels):
            yield Pair("Missing set", f"{missing}: no exclusive set of this name exists, so the cluster is in none")
        yield from tainted(found, related, now)
        yield conditions(found)
        claims = [[str(one.get("name")), str(one.get("value"))] for one in at(found, "status", "clusterClaims") or []]
        yield Rows("Claims", ["NAME", "VALUE"], claims)
        yield from offered(found)
        add_ons = [
            [name_of(one), condition_field(one, "Available"), condition_field(one, "Available", "reason")]
            for one in related.list("ManagedClusterAddOn", name)
        ]
        yield Rows(f"Add-ons ({len(add_ons)})", ["NAME", "AVAILABLE", "REASON"], add_ons)
        rows = [
            [namespace_of(one), placement_of(one), group_text(one)]
            for one in related.list("PlacementDecision")
            if name in decided(one)
        ]
        yield Rows(f"Selected by ({len(rows)})", ["NAMESPACE", "PLACEMENT", "GROUP"], rows)

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        # The result has the labels that the system maintains on a managed cluster.
        from moorage.apiserver.kinds.status.ocm import with_labels

        resource, found = records.resources.get(object_id.key), super().shown(object_id, records)
        if resource is None or found is None:
            return None
        return with_labels(found, resource, records.taints.get(f"{self.kind}/{object_id.name}"))

    @override
    def spec_taints(self, resource: ManagedCluster) -> Sequence[Taint]:
        # Only the system sets `timeAdded`, so it is removed from the taints.
        return [taint.model_copy(update={"time_added": None}) for taint in super().spec_taints(resource)]

    @override
    def notes(self, document: Mapping[str, Any], sent: Mapping[str, Any], records: Records) -> Iterator[str]:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex
        from moorage.decide.taints.desired.addons import LABEL_PREFIX

        yield from super().notes(document, sent, records)
        labels, there = part(part(sent, "metadata"), "labels"), part(part(document, "metadata"), "labels")
        for name in sorted(labels):
            if name.startswith(LABEL_PREFIX) and labels[name] != there.get(name):
                why = "is maintained by the system, from the add-on's lease"
                yield f"metadata.labels: {name} {why}: {labels[name]!r} was not used"
        if missing := records.index(ManagedIndex).sets.missing(there):
            yield f"metadata.labels: {SET_LABEL} names {missing!r}, and there is no such set"

    @override
    def why_unused(self, sent: str, shown: str) -> str:
        return "" if _same_time(sent, shown) else "is set by the system"


_KNOWS_NO_LEGACY: Final = "v1beta2"


def _selector(found: Object) -> str:
    """Return how a set selects its clusters: by a selector, or by the label that names an exclusive set."""
    selector = at(found, "spec", "clusterSelector") or {}
    by_labels = selector.get("selectorType") == "LabelSelector"
    return selector_text(selector.get("labelSelector")) if by_labels else "ExclusiveClusterSetLabel"


class ManagedClusterSetKind(Kind[Any]):
    """A set of managed clusters.

    The versions differ in one value only: before v1beta2, the exclusive selector type was `LegacyClusterSetLabel`. It
    is stored as it was written, and shown with the name of the requested version.
    """

    group = "cluster.open-cluster-management.io"
    versions: ClassVar[tuple[str, ...]] = ("v1beta2", "v1beta1", "v1alpha1")
    kind = "ManagedClusterSet"
    model_module = "managed"
    mirrorable = True
    short_names: ClassVar[tuple[str, ...]] = ("mclset", "mclsets")
    namespaced = False
    order = 210
    status_shown = True
    apply_order = 120
    unknown_fields = UnknownFields.WARNED
    columns = (
        TableColumn("EMPTY", condition("ClusterSetEmpty")),
        AGE,
        TableColumn("SELECTOR", of(_selector), wide=True),
        TableColumn("CLUSTERS", condition("ClusterSetEmpty", "message"), wide=True),
    )
    api_columns = (of_condition("Empty", "ClusterSetEmpty"), CUSTOM_AGE)
    counted_status = True
    built_in = ("default", "global")

    @override
    def converted(self, document: Mapping[str, Any], version: str) -> Mapping[str, Any]:
        from moorage_schemas.resources.managed import EXCLUSIVE, LEGACY

        shown = super().converted(document, version)
        spec = shown.get("spec") or {}
        selector = spec.get("clusterSelector") or {}
        if version != _KNOWS_NO_LEGACY or selector.get("selectorType") != LEGACY:
            return shown
        return {**shown, "spec": {**spec, "clusterSelector": {**selector, "selectorType": EXCLUSIVE}}}

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        name = name_of(found)
        yield Pair("Selector", _selector(found))
        yield Pair("Empty", condition_field(found, "ClusterSetEmpty"))
        made = sets(related).get(name)
        rows = [
            [name_of(one), available(one)]
            for one in related.list("ManagedCluster")
            if made is not None and made.has(at(one, "metadata", "labels") or {})
        ]
        yield Rows(f"Clusters ({len(rows)})", ["NAME", "AVAILABLE"], rows)
        bound = [
            namespace_of(one) for one in related.list("ManagedClusterSetBinding") if at(one, "metadata", "name") == name
        ]
        yield Values("Bound to", bound)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex, set_status

        return set_status(resource.name, records.index(ManagedIndex))

    @override
    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex, built_in_set, set_status

        name = object_id.name
        return {**built_in_set(name), "status": set_status(name, records.index(ManagedIndex))}

    @override
    def refusal(self, name: str, change: str) -> str:
        return f"this set is built in and may not be {change}" if name in self.built_in else ""


class ManagedClusterSetBindingKind(Kind[Any]):
    """A set that placements of a namespace may choose from."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta2", "v1beta1", "v1alpha1")
    kind = "ManagedClusterSetBinding"
    model_module = "managed"
    mirrorable = True
    short_names = ("mclsetbinding", "mclsetbindings")
    namespaced = True
    order = 220
    status_shown = True
    apply_order = 130
    unknown_fields = UnknownFields.WARNED
    columns = (
        TableColumn("CLUSTER SET", text("spec", "clusterSet")),
        TableColumn("BOUND", condition("Bound")),
        AGE,
        TableColumn("REASON", condition("Bound", "reason"), wide=True),
    )
    api_columns = (CUSTOM_AGE,)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        name = name_of(found)
        yield Pair("Cluster set", at(found, "spec", "clusterSet"))
        yield Pair("Bound", f"{condition_field(found, 'Bound')} ({condition_field(found, 'Bound', 'reason')})")
        using = [
            name_of(one)
            for one in related.list("Placement", namespace_of(found))
            if name in (at(one, "spec", "clusterSets") or [name])
        ]
        yield Values("Placements", using)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex, binding_status

        created = str(resource.object["metadata"].get("creationTimestamp") or "")
        return binding_status(resource.name, created, records.index(ManagedIndex))


def _scores(found: Object) -> str:
    """Return the scores in one line: `cpu=30,memory=-5`."""
    return ",".join(f"{one.get('name')}={one.get('value', 0)}" for one in at(found, "status", "scores") or []) or NONE


class AddOnPlacementScoreKind(Kind[Any]):
    """Scores that an add-on gives to the cluster of its namespace. They are in its status."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1alpha1",)
    kind = "AddOnPlacementScore"
    model_module = "managed"
    mirrorable = True
    namespaced = True
    order = 240
    apply_order = 150
    status_declared = True
    columns = (TableColumn("SCORES", of(_scores)), TableColumn("VALID UNTIL", text("status", "validUntil")), AGE)
    api_columns = (CUSTOM_AGE,)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield Pair("Cluster", at(found, "metadata", "namespace"))
        yield Pair("Valid until", at(found, "status", "validUntil") or "no limit")
        rows = [[str(one.get("name")), str(one.get("value", 0))] for one in at(found, "status", "scores") or []]
        yield Rows("Scores", ["NAME", "VALUE"], rows)


class ManagedClusterAddOnKind(Kind[Any]):
    """An add-on that is enabled on the cluster of its namespace."""

    group = "addon.open-cluster-management.io"
    versions = ("v1alpha1",)
    kind = "ManagedClusterAddOn"
    model_module = "managed"
    mirrorable = True
    short_names = ("mca", "mcas")
    namespaced = True
    order = 250
    status_shown = True
    apply_order = 170
    columns = (
        TableColumn("AVAILABLE", condition("Available")),
        TableColumn("DEGRADED", condition("Degraded")),
        TableColumn("PROGRESSING", condition("Progressing")),
        TableColumn("REASON", condition("Available", "reason"), wide=True),
        AGE._replace(wide=True),
    )
    api_columns = tuple(of_condition(one, one) for one in ("Available", "Degraded", "Progressing"))

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        namespace, name = namespace_of(found), name_of(found)
        yield Pair("Cluster", namespace)
        yield Pair(
            "Available", f"{condition_field(found, 'Available')} ({condition_field(found, 'Available', 'reason')})"
        )
        lease = related.get("Lease", namespace, name)
        if lease is None:
            yield Pair("Lease", "none of the add-on's name in its namespace")
            return
        yield Pair("Lease renewed", time_and_age(at(lease, "spec", "renewTime"), now))

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import add_on_status

        return add_on_status(resource.name, records.taints.get(f"ManagedCluster/{resource.namespace}"))


class LeaseKind(Kind[Any]):
    """The heartbeat of the add-on with the same name, in the namespace of its cluster."""

    group = "coordination.k8s.io"
    kind = "Lease"
    model_module = "managed"
    mirrorable = True
    namespaced = True
    created_by_update = True
    order = 260
    apply_order = 160
    has_generation = False
    columns = (
        TableColumn("HOLDER", text("spec", "holderIdentity")),
        AGE,
        TableColumn("RENEWED", since("spec", "renewTime"), wide=True),
        TableColumn("SECONDS", text("spec", "leaseDurationSeconds"), wide=True),
    )
    api_columns = (TableColumn("Holder", text("spec", "holderIdentity", default="")), AGE)

    def is_heartbeat(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Return a renewal: only `spec.renewTime`, and with it the generation, has changed."""
        return _without_renewal(before) == _without_renewal(after)


def _without_renewal(lease: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in lease["metadata"].items() if key != "generation"}
    spec = {key: value for key, value in (lease.get("spec") or {}).items() if key != "renewTime"}
    return {**lease, "metadata": metadata, "spec": spec}


CLUSTER, CLUSTER_SET = ManagedClusterKind(), ManagedClusterSetKind()
KINDS = (
    CLUSTER,
    CLUSTER_SET,
    ManagedClusterSetBindingKind(),
    AddOnPlacementScoreKind(),
    ManagedClusterAddOnKind(),
    LeaseKind(),
)
