"""Columns of Karmada's kinds: clusters, policies, and the bindings that come of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.cli.api.objects import at
from moorage.cli.render.cells import (
    AGE,
    NONE,
    UNREPORTED,
    Columns,
    Object,
    condition_status,
    labels_text,
    since,
    taints,
    text,
)


def _ready(found: Object) -> str:
    """The status of `Ready`, as `kubectl get clusters` shows it of Karmada, where it was reported."""
    return condition_status(found, "Ready") or UNREPORTED


def _zones(found: Object) -> str:
    return ",".join(at(found, "spec", "zones") or []) or str(at(found, "spec", "zone") or NONE)


def clusters_text(affinity: Any) -> str:
    """Which clusters a ClusterAffinity selects, in a word."""
    if not isinstance(affinity, Mapping) or not any(affinity.values()):
        return "<all>"
    parts = [",".join(affinity.get("clusterNames") or [])]
    parts += [f"!{name}" for name in affinity.get("exclude") or []]
    parts += [
        word for field, word in (("labelSelector", "<labels>"), ("fieldSelector", "<fields>")) if affinity.get(field)
    ]
    return ",".join(filter(None, parts))


def _selected(found: Object) -> str:
    """The resources that a policy is for: `Deployment/web,ConfigMap/*`."""
    chosen = at(found, "spec", "resourceSelectors") or []
    return ",".join(f"{one.get('kind')}/{one.get('name') or '*'}" for one in chosen) or NONE


def _policy_clusters(found: Object) -> str:
    placement = at(found, "spec", "placement") or {}
    groups = placement.get("clusterAffinities")
    if groups:
        return ";".join(clusters_text({k: v for k, v in one.items() if k != "affinityName"}) for one in groups)
    return clusters_text(placement.get("clusterAffinity"))


def scheduled(found: Object) -> str:
    """The status of a ResourceBinding's condition `Scheduled`."""
    conditions = at(found, "status", "conditions") or []
    return next((str(one.get("status")) for one in conditions if one.get("type") == "Scheduled"), "Unknown")


def _clusters(found: Object) -> str:
    return ",".join(cluster_text(one) for one in at(found, "spec", "clusters") or []) or NONE


def cluster_text(one: Object) -> str:
    """A cluster with its part of the replicas: `member1:2`."""
    return f"{one.get('name')}:{one['replicas']}" if one.get("replicas") else str(one.get("name"))


def _leaving(found: Object) -> str:
    tasks = at(found, "spec", "gracefulEvictionTasks") or []
    return ",".join(str(one.get("fromCluster")) for one in tasks) or NONE


COLUMNS: Final[dict[str, Columns]] = {
    "Cluster": (
        (
            ("MODE", text("spec", "syncMode", default="Push")),
            ("READY", _ready),
            ("TAINTS", taints(2)),
            AGE,
        ),
        (
            ("PROVIDER", text("spec", "provider")),
            ("REGION", text("spec", "region")),
            ("ZONE", _zones),
            ("ALL-TAINTS", taints(None)),
            ("LABELS", labels_text),
        ),
    ),
    "ClusterTaintPolicy": (
        (
            ("CLUSTERS", lambda found: clusters_text(at(found, "spec", "targetClusters"))),
            ("TAINTS", taints(None)),
            AGE,
        ),
        (),
    ),
    **dict.fromkeys(
        ("PropagationPolicy", "ClusterPropagationPolicy"),
        (
            (
                ("RESOURCES", _selected),
                ("CLUSTERS", _policy_clusters),
                ("PRIORITY", text("spec", "priority", default="0")),
                AGE,
            ),
            (),
        ),
    ),
    "ResourceBinding": (
        (("SCHEDULED", scheduled), ("CLUSTERS", _clusters), ("LEAVING", _leaving)),
        (("REPLICAS", text("spec", "replicas")), ("SINCE", since("status", "lastScheduledTime"))),
    ),
}
