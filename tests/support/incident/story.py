"""The incident that `ops/incident-drill` plays: a fleet, three faults, and what each place must show of them.

Zone `eu/b` of three zones is down, the probe `probe/disk` falls silent about all nodes, and two budgets hold evictions
from the zone: a PodDisruptionBudget of `shop/web`, and an EvictionBudget of the namespace `data`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

ZONES: Final = ("a", "b", "c")
NODES_OF_A_ZONE: Final = 4
NODES: Final = tuple(f"{zone}{number}" for zone in ZONES for number in range(1, NODES_OF_A_ZONE + 1))
DOWN: Final = tuple(name for name in NODES if name.startswith("b"))
KUBELET, DISK, DEPLOYER = "probe/kubelet", "probe/disk", "deployer/drill"
GRACE: Final = 8
"""Seconds without a report after which `probe/disk` counts as silent."""

SETTINGS: Final = (
    f"--source-grace-periods=Node:{DISK}={GRACE}s",
    "--node-monitor-period=1s",
    "--node-eviction-rate=0.25",
)
"""Flags of `moorage up`, with which the incident takes seconds instead of minutes."""

WEB, ORDERS, RENDER = "shop/web", "data/orders", "batch/render"
PODS: Final = 12 + 6 + 1
"""All pods of the fleet."""


def _node(name: str) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/region": "eu",
        "topology.kubernetes.io/zone": name[0],
        "disk": "hdd" if name[0] == "a" else "ssd",
        **({"gpu": "true"} if name == DOWN[0] else {}),
    }
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


def _controller(kind: str, key: str, replicas: int, selector: dict[str, str]) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}
        for key in ("not-ready", "unreachable")
    ]
    container = {"name": name, "image": f"example.org/{name}:2", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            **({"serviceName": name} if kind == "StatefulSet" else {}),
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"nodeSelector": selector, "tolerations": tolerations, "containers": [container]},
            },
        },
    }


def fleet() -> list[dict[str, Any]]:
    """The documents of the fleet. Work tolerates a node that is not ready for three seconds."""
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": key.partition("/")[0]}}
        for key in (WEB, ORDERS, RENDER)
    ]
    enough = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": 9, "selector": {"matchLabels": {"app": "web"}}},
    }
    slowly = {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "EvictionBudget",
        "metadata": {"name": "orders-slowly"},
        "spec": {"scope": {"namespaces": ["data"]}, "maxInWindow": 1},
    }
    return [
        *namespaces,
        *map(_node, NODES),
        enough,
        slowly,
        _controller("Deployment", WEB, 12, {}),
        _controller("Deployment", ORDERS, 6, {"disk": "ssd"}),
        _controller("Deployment", RENDER, 1, {"gpu": "true"}),
    ]


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    """An alert that must fire during the incident, and not before and after it."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Its name and labels."""
        return " ".join([self.name, *(f"{label}={value}" for label, value in sorted(self.labels))])

    def is_in(self, alerts: list[dict[str, Any]]) -> bool:
        """Return whether it fires in an answer of Prometheus."""
        return any(
            one["state"] == "firing"
            and one["labels"]["alertname"] == self.name
            and all(one["labels"].get(label) == value for label, value in self.labels)
            for one in alerts
        )


ALERTS: Final = (
    ExpectedAlert("MoorageZoneDisrupted", (("zone", "eu/b"), ("state", "FullDisruption"))),
    ExpectedAlert("MoorageSourceSilent", (("kind", "Node"), ("source", DISK))),
    ExpectedAlert("MoorageEvictionHeld", (("by", "EvictionBudget"),)),
    ExpectedAlert("MoorageEvictionHeld", (("by", "PodDisruptionBudget"),)),
    ExpectedAlert("MoorageWorkloadsUnscheduled", (("kind", "Pod"), ("reason", "Unschedulable"))),
)

LONGEST: Final = 3600
"""Seconds of the longest wait of these alerts as they are shipped."""

MAY_FIRE: Final = frozenset({"MoorageZoneQueueWaits"})
"""Alerts that also fire if their waits are divided by a large factor, because nodes of the zone do wait."""


@dataclass(frozen=True, slots=True)
class ExpectedSeries:
    """What a panel must show at some moment of the incident."""

    panel: str
    legend: str
    """A regular expression for the legend of a series."""

    least: float
    """The series must reach this value."""

    def is_in(self, peaks: dict[str, float]) -> bool:
        """Return whether a series of the panel reaches the value. `peaks` has the largest value by legend."""
        return any(re.fullmatch(self.legend, name) and peak >= self.least for name, peak in peaks.items())


_NOT_READY: Final = "node.kubernetes.io/not-ready"

FLEET_PANELS: Final = (
    ExpectedSeries("Not ready", "", 4),
    ExpectedSeries("Disrupted zones", "", 1),
    ExpectedSeries("Held", "", 4),
    ExpectedSeries("Unscheduled", "", 1),
    ExpectedSeries("Silent sources", "", 1),
    ExpectedSeries("Pauses", "", 0),
    ExpectedSeries("Targets by state", "NotReady", 4),
    ExpectedSeries("Targets by state", "Ready", 12),
    ExpectedSeries("Not ready by zone", "eu/b", 4),
    ExpectedSeries("Evictions a minute", "Scheduled .+", 1),
    ExpectedSeries("Evictions a minute", "Held .+", 1),
    ExpectedSeries("Evictions a minute", "Requested .+", 1),
    ExpectedSeries("Evictions a minute", "Completed .+", 1),
    ExpectedSeries("Not ready, as part of the zone", "eu/b", 1),
    ExpectedSeries("Not ready, as part of the zone", "threshold", 0.55),
    ExpectedSeries("Nodes that wait for the taint that evicts", "eu/b", 1),
    ExpectedSeries("Tokens and rates", "tokens eu/b", 0),
    ExpectedSeries("Tokens and rates", "rate eu/b", 0.25),
    ExpectedSeries("Zones", "eu/b FullDisruption", 1),
    ExpectedSeries("Open evictions", "Held", 4),
    ExpectedSeries("Held, by the kinds of what holds them", "EvictionBudget", 1),
    ExpectedSeries("Held, by the kinds of what holds them", "PodDisruptionBudget", 1),
    ExpectedSeries("Longest hold", "EvictionBudget", 5),
    ExpectedSeries("Longest hold", "PodDisruptionBudget", 5),
    ExpectedSeries("Lateness of evictions", "p99 false", 0),
    ExpectedSeries("From the request to the end of the work", "p99", 0),
    ExpectedSeries("Unscheduled workloads", "Pod Unschedulable", 1),
    ExpectedSeries("Decisions on workloads", "Pending Unschedulable", 0.001),
    ExpectedSeries("Decisions on workloads", "Placed Scheduled", 0.001),
    ExpectedSeries("Taints", f"{_NOT_READY}:NoSchedule", 4),
    ExpectedSeries("Taints", f"{_NOT_READY}:NoExecute", 4),
    ExpectedSeries("Taints that wait", f"{_NOT_READY}:NoExecute", 1),
    ExpectedSeries("Targets about which sources are silent", f"{DISK} Node", 12),
    ExpectedSeries("Targets by source", f"{DISK} Node", 12),
    ExpectedSeries("Targets by source", f"{KUBELET} Node", 12),
    ExpectedSeries("Evictions that budgets allow", "orders-slowly", 0),
    ExpectedSeries("Evictions in progress and held, by budget", "held orders-slowly", 1),
    ExpectedSeries("PodDisruptionBudgets", "InsufficientPods", 1),
)
"""For the dashboard "Moorage fleet"."""

WITHOUT_DATA: Final = frozenset(
    {"Restarts of partitions", "Dead letters", "Webhooks", "Acts of bridges", "Bridges", "Sent by bridges"}
)
"""Panels about what this incident does not have: restarts, refusals, webhooks and bridges."""

LINES: Final = {
    "the report of a node": rf"condition\.changed .*target=Node/b1 .*condition=Ready status=False .*source={KUBELET}",
    "the zone": r"zone\.changed .*zone=eu/b state=FullDisruption .*nodes=4 not_ready=4",
    "the first taint": rf"taint\.added .*target=Node/b1 key={_NOT_READY} effect=NoSchedule",
    "the wait for the zone": rf"taint\.waiting .*target=Node/b\d key={_NOT_READY} effect=NoExecute",
    "the grant of the zone": r"taint\.granted .*target=Node/b1 zone=eu/b",
    "the taint that evicts": rf"taint\.added .*target=Node/b1 key={_NOT_READY} effect=NoExecute",
    "the deadline": r"eviction\.scheduled .*workload=Pod/batch/render.* target=Node/b1 .*deadline=",
    "the request": r"eviction\.requested .*workload=Pod/batch/render.* target=Node/b1 reason=TolerationExpired",
    "the acknowledgement": rf"eviction\.acknowledged .*workload=Pod/batch/render.* deployer={DEPLOYER}",
    "the end": r"eviction\.completed .*workload=Pod/batch/render.* reason=BindingEnded",
    "the replacement without a node": r"workload\.unscheduled .*workload=Pod/batch/render.* reason=Unschedulable",
    "the hold by the PodDisruptionBudget": (
        r"eviction\.held .*workload=Pod/shop/web.*"
        r"held by PodDisruptionBudget/shop/web: 8 of 9 needed pods are healthy"
    ),
    "the hold by the EvictionBudget": (
        r"eviction\.held .*workload=Pod/data/orders.*"
        r"held by EvictionBudget/orders-slowly: 1 of 1 evictions in 3600 s were granted"
    ),
    "the silence": r"condition\.changed .*target=Node/a1 condition=DiskPressure status=Unknown was=False",
}
"""Lines of `moorage logs` during the incident, as regular expressions."""

LINES_AFTER: Final = {
    "the recovery of a node": r"condition\.changed .*target=Node/b1 .*condition=Ready status=True was=False",
    "the end of the taint": rf"taint\.removed .*target=Node/b1 key={_NOT_READY} effect=NoExecute",
    "the end of a hold": r"eviction\.cancelled .*workload=Pod/shop/web.* reason=TaintRemoved",
    "the zone": r"zone\.changed .*zone=eu/b state=Normal was=FullDisruption",
    "the end of the silence": r"condition\.changed .*target=Node/a1 condition=DiskPressure status=False was=Unknown",
}
"""Lines after the recovery."""

STATUS: Final = (
    r"nodes +12 +8 +4 +0 ",
    r"eu/b +FullDisruption +4 +4 ",
    r"evictions +6 \(6 Held\)",
    r"held by +PodDisruptionBudget/shop/web \(4\), EvictionBudget/orders-slowly \(2\)",
    r"unscheduled +1 \(1 Unschedulable\)",
    r"sources +2, 1 silent",
    r"WARNING +zones: zone eu/b is in FullDisruption: 4 of 4 nodes are not ready",
    rf"WARNING +sources: {DISK} has not reported on 12 of its targets",
)
"""What `moorage status` must show during the incident, as regular expressions."""


def pages(held: str, left: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return pages of the console during the incident: a name, the path, and texts as regular expressions.

    Args:
        held: the key of a pod of `shop/web` whose eviction is held.
        left: the key of the pod of `batch/render` that was evicted.
    """
    return [
        ("overview", "/", (r"NotReady 4\b", r"eu/b", r"Held", "Unschedulable")),
        ("zones", "/console/zones", (r"eu/b FullDisruption", r"eu/a Normal")),
        ("budgets", "/console/budgets", ("orders-slowly", r"shop web 9\b", "poddisruptionbudget.shop.web")),
        ("targets", "/console/targets", (r"\bb1\b", "NotReady")),
        ("target", f"/console/targets/Node/{DOWN[0]}", ("PowerLost", f"{_NOT_READY}:NoExecute", "DiskPressure")),
        ("target-why", f"/console/targets/Node/{DOWN[0]}/why", (KUBELET, "FullDisruption")),
        ("evictions", "/console/evictions", ("Held", "PodDisruptionBudget/shop/web", "EvictionBudget/orders-slowly")),
        ("evictions-ended", "/console/evictions?state=Ended", ("Completed", "render", DEPLOYER)),
        (
            "history",
            "/console/history",
            ("NodeNotReady", "NodeDiskPressureUnknown: probe/disk", "EvictionHeld", "Completed"),
        ),
        ("workload-held", f"/console/workloads/{held}", ("Held", "8 of 9 needed pods are healthy")),
        ("workload-evicted", f"/console/workloads/{left}", ("Completed", DEPLOYER)),
        ("workload-evicted-why", f"/console/workloads/{left}/why", ("no longer exists",)),
        ("placements", "/console/placements", ("Pending", "0/12 nodes are available")),
    ]


PAGES_AFTER: Final = (
    ("overview-after", "/", (r"NotReady 0\b",)),
    (
        "history-after",
        "/console/history",
        ("Cancelled", "NodeReady", "NodeDiskPressureUnknown"),
    ),
    ("evictions-after", "/console/evictions?state=Ended", ("Completed", "render")),
    ("zones-after", "/console/zones", ("eu/b Normal",)),
)
"""Pages after the recovery."""

BRIEF: Final = frozenset({"overview", "target", "evictions", "history", "workload-held", "workload-evicted"})
"""Pages that a brief drill looks at."""

PICTURES: Final = {
    "incident-alerts.png": "prometheus/alerts.png",
    "incident-status.png": "status.png",
    "incident-overview.png": "console/overview-light.png",
    "incident-waiting.png": "prometheus/fleet-11-nodes-that-wait-for-the-taint-that-evicts.png",
    "incident-evictions.png": "console/evictions-light.png",
    "incident-target.png": "console/target-dark.png",
    "incident-phone.png": "console/zones-phone.png",
    "incident-trace.png": "trace.png",
}
"""Pictures of docs/incident.md, by the file of the drill from which each is made."""
