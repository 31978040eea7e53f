"""Karmada's bindings (work.karmada.io/v1alpha2): where what a propagation policy has claimed belongs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar

from typing_extensions import override

from moorage.apiserver.kinds.families.propagation import KARMADA
from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import CUSTOM_AGE, NONE, Object, TableColumn, of, since, text
from moorage.apiserver.kinds.printing.kubernetes import of_condition
from moorage.apiserver.kinds.printing.sections import (
    OPEN,
    Pair,
    Related,
    Rows,
    Section,
    evictions,
    plain_conditions,
    time_and_age,
)
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.resources.names import DEFAULT_NAMESPACE


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


class PlacementOnClusters(View):
    """The placement of something that a propagation policy has claimed, as Karmada's API shows it.

    One of a real control plane is mirrored. It is shown as it is there.
    """

    group: ClassVar[str] = "work.karmada.io"
    versions: ClassVar[tuple[str, ...]] = ("v1alpha2",)
    mirrorable: ClassVar[bool] = True
    columns: ClassVar[tuple[TableColumn, ...]] = (
        TableColumn("SCHEDULED", of(_scheduled)),
        TableColumn("CLUSTERS", of(_clusters)),
        TableColumn("LEAVING", of(_leaving)),
        TableColumn("REPLICAS", text("spec", "replicas"), wide=True),
        TableColumn("SINCE", since("status", "lastScheduledTime"), wide=True),
    )
    categories: ClassVar[tuple[str, ...]] = (KARMADA,)
    api_columns: ClassVar[tuple[TableColumn, ...]] = (
        of_condition("", "Scheduled")._replace(spelled="SCHEDULED"),
        of_condition("", "FullyApplied")._replace(spelled="FULLYAPPLIED"),
        CUSTOM_AGE._replace(spelled="AGE"),
    )

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
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
            for one in related.list("Eviction", at(found, "metadata", "namespace") or DEFAULT_NAMESPACE)
            if at(one, "status", "workload", "kind") == self.kind
            and at(one, "status", "workload", "name") == at(found, "metadata", "name")
            and one["status"]["state"] in OPEN
        ]
        yield evictions(under_way, now)
