"""Columns of kubectl's tables, for each kind; Moorage's own kinds have theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moorage.cli.api.kinds import Kind
from moorage.cli.render.durations import age

Object = Mapping[str, Any]
Cell = Callable[[Object], str]

_NONE = "<none>"
_ROLE = "node-role.kubernetes.io/"


def at(value: Any, *path: str) -> Any:
    """What is at a path of an object; None when a part is missing."""
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def text(*path: str, default: str = _NONE) -> Cell:
    """A cell that shows the value at a path."""

    def cell(found: Object) -> str:
        value = at(found, *path)
        return default if value is None or value == "" else str(value)

    return cell


def taint_text(taint: Object) -> str:
    """A taint as it is written on the command line: `key=value:Effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def condition_status(found: Object, kind: str) -> str:
    """The status of a condition of an object; empty when it has none of that type."""
    for condition in at(found, "status", "conditions") or []:
        if condition.get("type") == kind:
            return str(condition.get("status", ""))
    return ""


SCHEDULED = "Scheduled"
"""The status of a pod that is bound and that no deployer has reported since."""

UNREPORTED = "Unreported"
"""What stands for `Ready` of a target of which nobody has reported it; it counts as ready until somebody does."""


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
    return ",".join(role for role in roles if role) or _NONE


def taints(limit: int | None) -> Cell:
    """The taints of a node, the first `limit` of them."""

    def cell(found: Object) -> str:
        every = [taint_text(taint) for taint in at(found, "spec", "taints") or []]
        if not every:
            return _NONE
        more = f",+{len(every) - limit}" if limit is not None and len(every) > limit else ""
        return ",".join(every[:limit]) + more

    return cell


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


def _age(found: Object) -> str:
    return age(at(found, "metadata", "creationTimestamp"))


def _zone(found: Object) -> str:
    return str(at(found, "metadata", "labels", "topology.kubernetes.io/zone") or _NONE)


def _images(found: Object) -> str:
    spec = at(found, "spec", "template", "spec") or at(found, "spec") or {}
    return ",".join(str(one.get("image", "")) for one in spec.get("containers") or []) or _NONE


def labels_text(found: Object) -> str:
    """The labels of an object in one line."""
    labels = at(found, "metadata", "labels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _ready(found: Object) -> str:
    """The status of `Ready`, as `kubectl get clusters` shows it of Karmada, where it was reported."""
    return condition_status(found, "Ready") or UNREPORTED


def _zones(found: Object) -> str:
    return ",".join(at(found, "spec", "zones") or []) or str(at(found, "spec", "zone") or _NONE)


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
    return ",".join(f"{one.get('kind')}/{one.get('name') or '*'}" for one in chosen) or _NONE


def _policy_clusters(found: Object) -> str:
    placement = at(found, "spec", "placement") or {}
    groups = placement.get("clusterAffinities")
    if groups:
        return ";".join(clusters_text({k: v for k, v in one.items() if k != "affinityName"}) for one in groups)
    return clusters_text(placement.get("clusterAffinity"))


def scope_text(scope: Any) -> str:
    """The scope of a budget or a pause: `zones=eu/eu-1;namespaces=shop`; `<all>` for the fleet."""
    parts = []
    for field, value in (scope or {}).items() if isinstance(scope, Mapping) else ():
        if isinstance(value, list) and value:
            parts.append(f"{field}={','.join(map(str, value))}")
        elif isinstance(value, Mapping):
            parts.append("<labels>")
    return ";".join(parts) or "<all>"


def _scope(found: Object) -> str:
    return scope_text(at(found, "spec", "scope"))


def _window(found: Object) -> str:
    count = at(found, "spec", "maxInWindow")
    return _NONE if count is None else f"{count} in {at(found, 'spec', 'windowSeconds') or 3600}s"


AGE = ("AGE", _age)

Column = tuple[str, Cell]

_COLUMNS: dict[str, tuple[tuple[Column, ...], tuple[Column, ...]]] = {
    "Namespace": ((("STATUS", text("status", "phase", default="Active")), AGE), ()),
    "Node": (
        (("STATUS", node_status), ("ROLES", node_roles), AGE, ("TAINTS", taints(2))),
        (("ZONE", _zone), ("ALL-TAINTS", taints(None)), ("LABELS", labels_text)),
    ),
    "Pod": (
        (("READY", pod_ready), ("STATUS", pod_status), ("NODE", text("spec", "nodeName")), AGE),
        (("MESSAGE", text("status", "message")), ("LABELS", labels_text)),
    ),
    "DedicatedNodes": (
        (
            ("KEY", text("spec", "key", default="dedicated")),
            ("VALUE", text("spec", "value")),
            ("EFFECT", text("spec", "effect", default="NoSchedule")),
            AGE,
        ),
        (),
    ),
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
    "EvictionBudget": (
        (
            ("PER", text("spec", "per", default="Fleet")),
            ("AT-A-TIME", text("spec", "maxConcurrent")),
            ("IN-WINDOW", _window),
            ("ALLOWED", text("status", "allowed", default="<unknown>")),
            ("UNDER-WAY", text("status", "inProgress", default="0")),
            ("HELD", text("status", "held", default="0")),
            AGE,
        ),
        (("SCOPE", _scope), ("PATIENCE", text("spec", "patienceSeconds"))),
    ),
    "EvictionPause": (
        (
            ("SCOPE", _scope),
            ("HELD", text("status", "held", default="0")),
            ("REASON", text("spec", "reason")),
            AGE,
        ),
        (),
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


def table(kind: Kind, *, wide: bool) -> tuple[Column, ...]:
    """The columns of a kind, after the name."""
    if kind.read_only:
        from moorage.cli.render.own_tables import own_columns  # noqa: PLC0415 - that module builds on this one

        return own_columns(kind, wide=wide)
    from moorage.cli.render.ocm_tables import MANAGED  # noqa: PLC0415 - that module builds on this one

    plain, more = _COLUMNS.get(kind.kind) or MANAGED.get(kind.kind) or ((AGE,), ())
    return (*plain, *more) if wide else plain


def listed(kind: Kind, answer: Object) -> list[dict[str, Any]]:
    """The items of a list; of timers those that are set, the earliest first."""
    items: list[dict[str, Any]] = answer.get("items") or []
    if kind.kind != "Timer":
        return items
    waiting = [item for item in items if at(item, "status", "deadline")]
    return sorted(waiting, key=lambda item: (at(item, "status", "deadline"), at(item, "metadata", "name")))


def nothing(namespace: str | None, kinds: Sequence[Kind]) -> str:
    """What is said when no object was found; `namespace` None means all were looked at."""
    where = f" in {namespace} namespace" if namespace is not None and any(kind.namespaced for kind in kinds) else ""
    return f"No resources found{where}."


def row(found: Object, columns: Sequence[Column]) -> list[str]:
    """The cells of one object."""
    return [cell(found) for _, cell in columns]
