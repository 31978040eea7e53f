"""Columns of what Kubernetes and OpenShift declare: nodes, pods, what makes them, budgets, machine sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moorage.cli.api.objects import at
from moorage.cli.render.cells import (
    AGE,
    NONE,
    UNREPORTED,
    Columns,
    Object,
    condition_status,
    labels_text,
    taints,
    text,
)

_ROLE = "node-role.kubernetes.io/"

SCHEDULED: Final = "Scheduled"
"""The status of a pod that is bound and that no deployer has reported since."""


def node_status(found: Object) -> str:
    """`Ready`, `NotReady`, `Unknown` or `Unreported`, and `SchedulingDisabled` when cordoned.

    kubectl also shows `Unknown` for a node without the condition `Ready`. Here that word means that a source has
    fallen silent: such a node is tainted, and one that nobody has reported is not.
    """
    words = {"True": "Ready", "False": "NotReady", "Unknown": "Unknown"}
    ready = words.get(condition_status(found, "Ready"), UNREPORTED)
    return f"{ready},SchedulingDisabled" if at(found, "spec", "unschedulable") else ready


def node_roles(found: Object) -> str:
    """The roles that a node's labels name."""
    labels = at(found, "metadata", "labels") or {}
    roles = sorted(label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE))
    return ",".join(role for role in roles if role) or NONE


def pod_status(found: Object) -> str:
    """The phase of a pod, or the reason when it has one (`Evicted`); `Scheduled` when it is bound and not reported."""
    if at(found, "metadata", "deletionTimestamp"):
        return "Terminating"
    phase = str(at(found, "status", "reason") or at(found, "status", "phase") or "Unknown")
    return SCHEDULED if phase == "Pending" and condition_status(found, "PodScheduled") == "True" else phase


def pod_ready(found: Object) -> str:
    """Ready containers of all. Deployers report whole pods, so it is all of them or none."""
    statuses = at(found, "status", "containerStatuses")
    total = len(at(found, "spec", "containers") or [])
    if isinstance(statuses, Sequence) and statuses:
        return f"{sum(1 for one in statuses if one.get('ready'))}/{total or len(statuses)}"
    return f"{total if condition_status(found, 'Ready') == 'True' else 0}/{total}"


def replicas(found: Object) -> str:
    """Ready of wanted replicas."""
    wanted = at(found, "spec", "replicas")
    status = at(found, "status") or {}
    ready = status.get("readyReplicas", status.get("numberReady", 0))
    if found.get("kind") == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
    elif found.get("kind") == "Job":
        wanted = at(found, "spec", "parallelism")
        ready = status.get("ready", 0)
    return f"{ready}/{1 if wanted is None else wanted}"


def scheduled(found: Object) -> str:
    """How many pods of a controller are bound."""
    status = at(found, "status") or {}
    return str(status.get("scheduledReplicas", status.get("currentNumberScheduled", 0)))


def _zone(found: Object) -> str:
    return str(at(found, "metadata", "labels", "topology.kubernetes.io/zone") or NONE)


def _images(found: Object) -> str:
    spec = at(found, "spec", "template", "spec") or at(found, "spec") or {}
    return ",".join(str(one.get("image", "")) for one in spec.get("containers") or []) or NONE


COLUMNS: Final[dict[str, Columns]] = {
    "Namespace": ((("STATUS", text("status", "phase", default="Active")), AGE), ()),
    "Node": (
        (("STATUS", node_status), ("ROLES", node_roles), AGE, ("TAINTS", taints(2))),
        (("ZONE", _zone), ("ALL-TAINTS", taints(None)), ("LABELS", labels_text)),
    ),
    "Pod": (
        (("READY", pod_ready), ("STATUS", pod_status), ("NODE", text("spec", "nodeName")), AGE),
        (("MESSAGE", text("status", "message")), ("LABELS", labels_text)),
    ),
    "PodDisruptionBudget": (
        (
            ("MIN AVAILABLE", text("spec", "minAvailable", default="N/A")),
            ("MAX UNAVAILABLE", text("spec", "maxUnavailable", default="N/A")),
            ("ALLOWED DISRUPTIONS", text("status", "disruptionsAllowed", default="0")),
            AGE,
        ),
        (
            ("EXPECTED", text("status", "expectedPods", default="0")),
            ("HEALTHY", text("status", "currentHealthy", default="0")),
            ("HELD", text("status", "held", default="0")),
        ),
    ),
    "MachineSet": (
        (
            ("DESIRED", text("spec", "replicas", default="1")),
            ("CURRENT", text("status", "replicas", default="0")),
            ("READY", text("status", "readyReplicas", default="0")),
            ("AVAILABLE", text("status", "availableReplicas", default="0")),
            AGE,
        ),
        (("TAINTS", lambda found: taints(None)(at(found, "spec", "template") or {})),),
    ),
    "ConfigMap": ((("DATA", lambda found: str(len(found.get("data") or {}))), AGE), ()),
    "Service": ((("TYPE", text("spec", "type", default="ClusterIP")), AGE), ()),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"),
        ((("READY", replicas), ("SCHEDULED", scheduled), AGE), (("IMAGES", _images), ("LABELS", labels_text))),
    ),
}
