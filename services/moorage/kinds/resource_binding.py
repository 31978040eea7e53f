"""`ResourceBinding` (work.karmada.io/v1alpha2)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.families.propagation import KARMADA
from moorage.kinds.kind import View
from moorage.kinds.printing.columns import CUSTOM_AGE, NONE, Object, TableColumn, of, since, text
from moorage.kinds.printing.kubernetes import of_condition
from moorage.kinds.printing.sections import (
    OPEN,
    Pair,
    Related,
    Rows,
    Section,
    evictions,
    plain_conditions,
    time_and_age,
)

if TYPE_CHECKING:
    from moorage.kinds.status.index import Index
    from moorage.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.resources.bindings import ResourceBinding


def eviction_tasks(binding: Object) -> list[dict[str, Any]]:
    """The graceful eviction tasks of a binding: its parts that are leaving their clusters."""
    tasks: list[dict[str, Any]] = at(binding, "spec", "gracefulEvictionTasks") or []
    return tasks


def parts(binding: Object) -> list[dict[str, Any]]:
    """The clusters of a binding, and those that it is leaving."""
    there: list[dict[str, Any]] = at(binding, "spec", "clusters") or []
    names = {one.get("name") for one in there}
    left = [{"name": one.get("fromCluster"), "replicas": one.get("replicas")} for one in eviction_tasks(binding)]
    return [*there, *(one for one in left if one["name"] not in names)]


def _scheduled(found: Object) -> str:
    """The status of the condition `Scheduled`."""
    conditions = at(found, "status", "conditions") or []
    return next((str(one.get("status")) for one in conditions if one.get("type") == "Scheduled"), "Unknown")


def _clusters(found: Object) -> str:
    return ",".join(_cluster(one) for one in at(found, "spec", "clusters") or []) or NONE


def _cluster(one: Object) -> str:
    """A cluster with its share of the replicas: `member1:2`."""
    return f"{one.get('name')}:{one['replicas']}" if one.get("replicas") else str(one.get("name"))


def _leaving(found: Object) -> str:
    return ",".join(str(one.get("fromCluster")) for one in eviction_tasks(found)) or NONE


class ResourceBindingKind(View):
    """The placement of a resource that a propagation policy has claimed, as Karmada's API shows it.

    One of a real control plane is mirrored. It is shown as it is there.
    """

    group = "work.karmada.io"
    versions = ("v1alpha2",)
    kind = "ResourceBinding"
    plural = "resourcebindings"
    singular = "resourcebinding"
    short_names = ("rb",)
    namespaced = True
    mirrorable = True
    order = 2090
    columns = (
        TableColumn("SCHEDULED", of(_scheduled)),
        TableColumn("CLUSTERS", of(_clusters)),
        TableColumn("LEAVING", of(_leaving)),
        TableColumn("REPLICAS", text("spec", "replicas"), wide=True),
        TableColumn("SINCE", since("status", "lastScheduledTime"), wide=True),
    )
    categories = (KARMADA,)
    api_columns = (
        of_condition("", "Scheduled")._replace(spelled="SCHEDULED"),
        of_condition("", "FullyApplied")._replace(spelled="FULLYAPPLIED"),
        CUSTOM_AGE._replace(spelled="AGE"),
    )

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """See `Kind`."""
        from moorage.kinds.status.controllers import OwnerIndex
        from moorage.kinds.status.reported import ReportIndex
        from moorage.kinds.status.resource_bindings import PolicyIndex

        return (OwnerIndex, ReportIndex, PolicyIndex)

    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        """See `Kind`."""
        resource = at(found, "spec", "resource") or {}
        yield Pair("Resource", f"{str(resource.get('kind')).lower()}/{resource.get('name')}")
        yield Pair("Replicas", at(found, "spec", "replicas"))
        yield Pair("Clusters", ",".join(_cluster(one) for one in at(found, "spec", "clusters") or []))
        yield plain_conditions(found)
        health = [
            [str(one.get("clusterName")), str(one.get("health") or "Unknown")]
            for one in at(found, "status", "aggregatedStatus") or []
        ]
        yield Rows("Health", ["CLUSTER", "HEALTH"], health)
        leaving = [
            [
                str(one.get("fromCluster")),
                str(one.get("purgeMode") or ""),
                time_and_age(one.get("creationTimestamp"), now),
                f"{one['gracePeriodSeconds']}s" if one.get("gracePeriodSeconds") is not None else "",
                str(one.get("message") or one.get("reason") or ""),
            ]
            for one in eviction_tasks(found)
        ]
        yield Rows("Leaving", ["CLUSTER", "PURGE MODE", "SINCE", "GRACE PERIOD", "REASON"], leaving)
        under_way = [
            one
            for one in related.list("Eviction", str(at(found, "metadata", "namespace")))
            if at(one, "status", "workload", "kind") == "ResourceBinding"
            and at(one, "status", "workload", "name") == at(found, "metadata", "name")
            and one["status"]["state"] in OPEN
        ]
        yield evictions(under_way, now)

    @property
    def model(self) -> type[ResourceBinding]:
        """See `Kind`."""
        from moorage_schemas.resources.bindings import ResourceBinding

        return ResourceBinding

    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        """See `Kind`."""
        from moorage.kinds.status.resource_bindings import resource_binding

        declared = records.resources.get(object_id.key)
        if declared is not None:
            return declared.object
        placed = records.placements.get(object_id.key)
        return resource_binding(placed, records) if placed is not None else None


KIND = ResourceBindingKind()
