"""Machine sets: how many nodes to add or remove, and the form of a new node (docs/domain.md, "Machine sets").

The template applies only to new nodes. Existing nodes are never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.decide.kubernetes.unstructured import part

KIND: Final = "MachineSet"
GROUP: Final = "machine.openshift.io"

MACHINE: Final = "machine.openshift.io/machine"
"""Annotation of a node: `namespace/name` of its machine. Here node and machine have the same name."""

DELETE_MARKS: Final = ("machine.openshift.io/delete-machine", "cluster.k8s.io/delete-machine")
"""Annotations (or labels) of nodes that are removed first when there are too many."""

VCPU: Final = "machine.openshift.io/vCPU"
MEMORY_MB: Final = "machine.openshift.io/memoryMb"
GPU: Final = "machine.openshift.io/GPU"
CAPACITY: Final = (VCPU, MEMORY_MB, GPU)
"""Annotations of a machine set that state the capacity of its machines, as read by OpenShift's autoscaler."""

GPU_RESOURCE: Final = "nvidia.com/gpu"

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # without vowels and look-alikes, so that it forms no words
_SUFFIX: Final = 5
_LONGEST_NAME: Final = 253

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of a machine set, with the facts that determine which node is removed first."""

    name: str
    uid: str
    created: str
    """When it was created, RFC 3339 in UTC."""

    ready: str = ""
    """The status of its condition `Ready`. Empty if it was never reported."""

    marked: bool = False
    """Whether it is marked to be removed first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes to make for a machine set."""

    make: int = 0
    remove: tuple[Machine, ...] = ()
    """In the order in which they are removed."""


def wanted_replicas(machine_set: Mapping[str, Any]) -> int:
    """Return the number of nodes that a machine set requests. The default is one."""
    replicas = part(machine_set, "spec").get("replicas")
    return 1 if replicas is None else int(replicas)


def plan(replicas: int, machines: Iterable[Machine]) -> Plan:
    """Return the changes that bring the present machines to the requested number.

    If there are too many, marked machines are removed first, then those whose `Ready` was reported as anything but
    True, then the newest. Among equals, the one with the last name is removed.
    """
    present = list(machines)
    surplus = len(present) - replicas
    if surplus <= 0:
        return Plan(make=-surplus)
    present.sort(key=lambda machine: (machine.created, machine.name), reverse=True)
    present.sort(key=lambda machine: (not machine.marked, machine.ready in {"", "True"}))
    return Plan(remove=tuple(present[:surplus]))


def machine_names(
    machine_set: Mapping[str, Any], version: int, present: Iterable[str], taken: Callable[[str], bool], count: int
) -> list[str]:
    """Return names for new nodes: `<machine set>-<5 characters>`. They are a hash of the cause, never random."""
    metadata = part(machine_set, "metadata")
    prefix = str(metadata.get("name", ""))[: _LONGEST_NAME - _SUFFIX - 1].rstrip("-.")
    salt = " ".join((str(metadata.get("uid", "")), str(version), *sorted(present)))
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"{prefix}-{_letters(f'{salt} {number}')}"
        if not taken(name) and name not in found:
            found.append(name)
        number += 1
    return found


def new_node(machine_set: Mapping[str, Any], name: str) -> Document:
    """Return the node that a machine set creates, before admission: labels, annotations, taints, owner, capacity."""
    metadata = part(machine_set, "metadata")
    template = part(part(part(machine_set, "spec"), "template"), "spec")
    made_with = part(template, "metadata")
    namespace = str(metadata.get("namespace", ""))
    node: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": dict(part(made_with, "labels")),
            "annotations": {**part(made_with, "annotations"), MACHINE: f"{namespace}/{name}"},
            "ownerReferences": [
                {
                    "apiVersion": str(machine_set.get("apiVersion", "")),
                    "kind": KIND,
                    "name": str(metadata.get("name", "")),
                    "uid": str(metadata.get("uid", "")),
                    "controller": True,
                }
            ],
        },
        "spec": {},
    }
    if taints := template.get("taints"):
        node["spec"]["taints"] = [{key: taint[key] for key in taint if key != "timeAdded"} for taint in taints]
    if capacity := capacity_of(part(metadata, "annotations")):
        node["status"] = {"capacity": capacity}
    return node


def capacity_of(annotations: Mapping[str, Any]) -> dict[str, str]:
    """Return the capacity of a set's machines by its annotations. Empty if there are none."""
    shown = {}
    if VCPU in annotations:
        shown["cpu"] = str(annotations[VCPU])
    if MEMORY_MB in annotations:
        shown["memory"] = f"{annotations[MEMORY_MB]}Mi"
    if GPU in annotations:
        shown[GPU_RESOURCE] = str(annotations[GPU])
    return shown


def owner_uid(node: Mapping[str, Any]) -> str:
    """Return the uid of the machine set that created a node. Empty if none did."""
    for owner in part(node, "metadata").get("ownerReferences") or ():
        if isinstance(owner, Mapping) and owner.get("kind") == KIND and owner.get("controller") is True:
            group = str(owner.get("apiVersion", "")).partition("/")[0]
            if group == GROUP:
                return str(owner.get("uid") or "")
    return ""


def marked(node: Mapping[str, Any]) -> bool:
    """Return whether a node is marked to be removed first."""
    metadata = part(node, "metadata")
    return any(mark in part(metadata, where) for where in ("annotations", "labels") for mark in DELETE_MARKS)


def with_template(machine_set: Document, before: Mapping[str, Any]) -> Document:
    """Return a changed machine set. If the change omits the template or the selector, the previous one is kept.

    A machine set is useless without its template. A change that contains only `spec.replicas` is meant to change only
    the number.
    """
    spec, known = machine_set.get("spec"), part(before, "spec")
    if spec is not None and not isinstance(spec, Mapping):
        return machine_set
    kept = {name: known[name] for name in ("template", "selector") if name in known and (spec or {}).get(name) is None}
    return {**machine_set, "spec": {**(spec or {}), **kept}} if kept else machine_set


def _letters(text: str) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest())
    letters = []
    for _ in range(_SUFFIX):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)
