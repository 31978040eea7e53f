"""`ManagedCluster` (cluster.open-cluster-management.io/v1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from moorage.apiserver.kinds.families.ocm import available, decided, group_text, placement_of, sets
from moorage.apiserver.kinds.families.targets import Target, offered, tainted
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
    taints,
)
from moorage.apiserver.kinds.printing.kubernetes import of_condition
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, conditions
from moorage.decide.kubernetes.unstructured import at, part
from moorage_schemas.resources.names import GLOBAL_SET, MANAGED_CLUSTER_AVAILABLE, SET_LABEL
from moorage_schemas.times import parse_time

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.managed import ManagedCluster
    from moorage_schemas.taint import Taint


def _accepted(found: Object) -> str:
    return str(bool(at(found, "spec", "hubAcceptsClient"))).lower()


def _urls(found: Object) -> str:
    configs = at(found, "spec", "managedClusterClientConfigs") or []
    return ",".join(str(one.get("url")) for one in configs if one.get("url")) or NONE


def _first_url(found: Object) -> str:
    """The first address: a column of a custom resource shows one value."""
    return _urls(found).partition(",")[0].replace(NONE, "")


def _same_time(one: str, other: str | None) -> bool:
    """Whether two texts are the same instant. A text that is not a time equals no other."""
    try:
        return other is not None and parse_time(one) == parse_time(other)
    except ValueError:
        return False


class ManagedClusterKind(Target["ManagedCluster"]):
    """A cluster that OCM's placements choose."""

    group = "cluster.open-cluster-management.io"
    kind = "ManagedCluster"
    plural = "managedclusters"
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

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex

        return (*super().indexes, ManagedIndex)

    @override
    def validate(self, resource: ManagedCluster, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.ocm import validate_managed_cluster

        return validate_managed_cluster(resource)

    @override
    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        from moorage.apiserver.rules.defaults import admit_managed_cluster

        return admit_managed_cluster(document)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        name = str(at(found, "metadata", "name"))
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
            [
                str(at(one, "metadata", "name")),
                condition_field(one, "Available"),
                condition_field(one, "Available", "reason"),
            ]
            for one in related.list("ManagedClusterAddOn", name)
        ]
        yield Rows(f"Add-ons ({len(add_ons)})", ["NAME", "AVAILABLE", "REASON"], add_ons)
        rows = [
            [str(at(one, "metadata", "namespace")), placement_of(one), group_text(one)]
            for one in related.list("PlacementDecision")
            if name in decided(one)
        ]
        yield Rows(f"Selected by ({len(rows)})", ["NAMESPACE", "PLACEMENT", "GROUP"], rows)

    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        """See `Kind`. The result has the labels that the system maintains on a managed cluster."""
        from moorage.apiserver.kinds.status.ocm import with_labels

        resource, found = records.resources.get(object_id.key), super().shown(object_id, records)
        if resource is None or found is None:
            return None
        return with_labels(found, resource, records.taints.get(f"{self.kind}/{object_id.name}"))

    def spec_taints(self, resource: ManagedCluster) -> Sequence[Taint]:
        """See `Kind`. Only the system sets `timeAdded`, so it is removed from the taints."""
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
        times = {
            (taint["key"], taint["effect"]): taint["timeAdded"] for taint in part(document, "spec").get("taints") or ()
        }
        for number, taint in enumerate(part(sent, "spec").get("taints") or ()):
            time = taint.get("timeAdded")
            if time and not _same_time(time, times.get((taint.get("key"), taint.get("effect")))):
                yield f"spec.taints[{number}].timeAdded is set by the system: {time!r} was not used"
        if missing := records.index(ManagedIndex).sets.missing(there):
            yield f"metadata.labels: {SET_LABEL} names {missing!r}, and there is no such set"


KIND = ManagedClusterKind()
