"""Cells and columns of the tables that Kubernetes shows of its own kinds, which users of kubectl expect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from moorage.apiserver.kinds.printing.columns import AGE, NONE, Cell, Object, TableColumn, condition_field, of, text
from moorage.decide.kubernetes.durations import age, human
from moorage.decide.kubernetes.object_texts import condition_status
from moorage.decide.kubernetes.unstructured import as_label_selector, at
from moorage_schemas.times import parse_time

UNKNOWN: Final = "<unknown>"
_GATED: Final = "SchedulingGated"

_OPERATORS: Final = {"In": "in", "NotIn": "notin"}


def number(title: str, *path: str) -> TableColumn:
    """Return a column of the whole number at a path. A missing one is 0."""
    return TableColumn(title, text(*path, default="0"), type="integer")


def of_condition(title: str, kind: str, field: str = "status") -> TableColumn:
    """Return a column of a field of the condition of a type. Empty if the object has no such condition."""
    return TableColumn(title, of(lambda found: condition_field(found, kind, field).replace(NONE, "")))


def ready_of(ready: str, wanted: str) -> Cell:
    """Return a cell `1/3`: of a field of `status`, and of one of `spec`, which is 1 if it is missing."""

    def cell(found: Object, _: datetime) -> str:
        total = at(found, "spec", wanted)
        return f"{at(found, 'status', ready) or 0}/{1 if total is None else total}"

    return cell


def selector_text(selector: Any) -> str:
    """Return a label selector in one line: `app=web,tier in (a,b)`. `<none>` if there is none."""
    if not isinstance(selector, Mapping):
        return NONE
    selector = as_label_selector(selector)
    labels = selector.get("matchLabels") or {}
    parts = [f"{key}={value}" for key, value in sorted(labels.items())]
    for one in selector.get("matchExpressions") or ():
        key, operator, values = str(one.get("key", "")), str(one.get("operator", "")), one.get("values") or ()
        if operator in _OPERATORS:
            parts.append(f"{key} {_OPERATORS[operator]} ({','.join(sorted(map(str, values)))})")
        else:
            parts.append(f"!{key}" if operator == "DoesNotExist" else key)
    return ",".join(parts) or NONE


def labels_text(labels: Any) -> str:
    """Labels in one line. `<none>` if there are none."""
    found = labels if isinstance(labels, Mapping) else {}
    return ",".join(f"{key}={value}" for key, value in sorted(found.items())) or NONE


def of_containers(title: str, field: str, *template: str) -> TableColumn:
    """Return a column of a field of the containers of a template."""

    def cell(found: Object) -> str:
        containers = at(found, *template, "spec", "containers")
        listed = containers if isinstance(containers, list) else []
        return ",".join(str(one.get(field, "")) for one in listed if isinstance(one, Mapping))

    return TableColumn(title, of(cell), wide=True)


CONTAINERS: Final = of_containers("Containers", "name", "spec", "template")
"""The names of the containers of a template."""

IMAGES: Final = of_containers("Images", "image", "spec", "template")
"""The images of the containers of a template."""

SELECTOR: Final = TableColumn("Selector", of(lambda found: selector_text(at(found, "spec", "selector"))), wide=True)
"""The selector of a controller."""

REPLICA_COLUMNS: Final = (
    number("Desired", "spec", "replicas")._replace(cell=text("spec", "replicas", default="1")),
    number("Current", "status", "replicas"),
    number("Ready", "status", "readyReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
"""The columns of what makes a number of like pods and nothing else."""

CREATED: Final = TableColumn("Created At", text("metadata", "creationTimestamp", default=UNKNOWN), type="date")
"""When an object was created."""


# Pods


def pod_phase(found: Object) -> str:
    """Return the status of a pod as kubectl shows it: `Terminating`, `SchedulingGated`, its reason, or its phase."""
    if at(found, "metadata", "deletionTimestamp"):
        return "Terminating"
    if condition_field(found, "PodScheduled", "reason") == _GATED:
        return _GATED
    return str(at(found, "status", "reason") or at(found, "status", "phase") or "Unknown")


def restarts(found: Object) -> str:
    """Return how often the containers of a pod were restarted."""
    statuses = at(found, "status", "containerStatuses")
    return str(sum(int(one.get("restartCount") or 0) for one in statuses) if isinstance(statuses, list) else 0)


def readiness_gates(found: Object) -> str:
    """Return how many of a pod's readiness gates are open: `1/2`. `<none>` if it has none."""
    gates = at(found, "spec", "readinessGates")
    if not isinstance(gates, list) or not gates:
        return NONE
    is_open = [condition_status(found, str(one.get("conditionType"))) == "True" for one in gates]
    return f"{sum(is_open)}/{len(gates)}"


# Nodes


def node_readiness(found: Object) -> str:
    """Return the status of a node as kubectl shows it: `Ready`, `NotReady` or `Unknown`, and whether it is cordoned."""
    words = {"True": "Ready", "False": "NotReady", "Unknown": "NotReady"}
    ready = words.get(condition_status(found, "Ready"), "Unknown")
    return f"{ready},SchedulingDisabled" if at(found, "spec", "unschedulable") else ready


def address(kind: str) -> Cell:
    """Return a cell of a node's address of a type."""

    def cell(found: Object, _: datetime) -> str:
        known = at(found, "status", "addresses")
        listed = known if isinstance(known, list) else []
        return next((str(one.get("address")) for one in listed if one.get("type") == kind), NONE)

    return cell


# Jobs and services


def job_state(found: Object) -> str:
    """Return the status of a job as kubectl shows it."""
    for state in ("Complete", "Failed"):
        if condition_status(found, state) == "True":
            return state
    if at(found, "metadata", "deletionTimestamp"):
        return "Terminating"
    for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition_status(found, state) == "True":
            return state
    return "Running"


def job_completions(found: Object) -> str:
    """Return how many pods of a job have completed, of those that are wanted: `1/3`."""
    done, wanted = at(found, "status", "succeeded") or 0, at(found, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = at(found, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def job_duration(found: Object, now: datetime) -> str:
    """Return how long a job has run. Empty if it has not started."""
    start, end = at(found, "status", "startTime"), at(found, "status", "completionTime")
    if not isinstance(start, str) or not start:
        return ""
    if isinstance(end, str) and end:
        return human((parse_time(end) - parse_time(start)).total_seconds())
    return age(start, now)


def service_ports(found: Object) -> str:
    """Return the ports of a service: `80:30080/TCP,443/TCP`."""
    ports = at(found, "spec", "ports")
    return ",".join(_ports(ports)) if isinstance(ports, list) and ports else NONE


def _ports(ports: list[Any]) -> Iterator[str]:
    for one in ports:
        node = f":{one['nodePort']}" if one.get("nodePort") else ""
        yield f"{one.get('port', '')}{node}/{one.get('protocol') or 'TCP'}"


def external_ip(found: Object) -> str:
    """Return the external addresses of a service."""
    spec = at(found, "spec") or {}
    named = [str(one) for one in spec.get("externalIPs") or []]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or NONE)
    if spec.get("type") == "LoadBalancer":
        known = at(found, "status", "loadBalancer", "ingress") or []
        named = [str(one.get("ip") or one.get("hostname")) for one in known] + named
        return ",".join(named) or "<pending>"
    return ",".join(named) or NONE


# Volumes and endpoints

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_MOST: Final = 3  # addresses or ports that are shown


def access_modes(modes: Any) -> str:
    """Return the access modes of a volume in short: `RWO,ROX`."""
    found = modes if isinstance(modes, list) else []
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in found)


def first_of(found: list[str], most: int = _MOST) -> str:
    """Return the first few of some texts, and how many more there are: `a,b,c + 1 more...`."""
    more = f" + {len(found) - most} more..." if len(found) > most else ""
    return ",".join(found[:most]) + more
