"""Targets in the cluster of a bridge, nodes or clusters of a fleet, and the parts of them that are Moorage's.

A target's taints are one list that several programs write, so a bridge notes beside it, in the same write, which of
them are its own. Conditions are a list by type, for which the API server keeps who has set each (`managedFields`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson
from pydantic import TypeAdapter, ValidationError

from moorage.bridges.engine.cluster_events import Regarding
from moorage.bridges.kube.client import FIELD_MANAGER
from moorage.decide.taints.desired.from_conditions import belongs_to_state
from moorage_schemas.condition import ConditionStatus, ConditionType

TAINTS_ANNOTATION: Final = "moorage.io/taints"
"""The taints on a node that a bridge has set: a JSON array of objects with `key` and `effect`."""

Identity = tuple[str, str]
"""The key and the effect of a taint."""


def identity_of(taint: Mapping[str, Any]) -> Identity:
    """Return the identity of a taint among those of its node."""
    return str(taint.get("key") or ""), str(taint.get("effect") or "")


def own_taints(node: Mapping[str, Any]) -> frozenset[Identity]:
    """Return the taints that a bridge has noted as its own. A note that cannot be read counts as none."""
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    try:
        noted = orjson.loads(annotations.get(TAINTS_ANNOTATION) or "[]")
    except orjson.JSONDecodeError:
        return frozenset()
    if not isinstance(noted, list):
        return frozenset()
    return frozenset(identity_of(one) for one in noted if isinstance(one, Mapping))


def noted(taints: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the annotation for taints. None if there are none."""
    identities = sorted({identity_of(taint) for taint in taints})
    return orjson.dumps([{"key": key, "effect": effect} for key, effect in identities]).decode() if identities else None


def taints_of(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the taints of a node as the cluster has them."""
    return (node.get("spec") or {}).get("taints") or ()


def follows_from_state(node: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Return whether a taint is one that only the node's state decides on, such as `node.kubernetes.io/not-ready`."""
    return belongs_to_state(node, *identity_of(taint), str(taint.get("value") or ""))


def state_taints(node: Mapping[str, Any]) -> frozenset[Identity]:
    """Return the taints on a node that follow from its state, regardless of who has set them."""
    return frozenset(identity_of(taint) for taint in taints_of(node) if follows_from_state(node, taint))


def managed_taints(node: Mapping[str, Any]) -> frozenset[Identity]:
    """Return the taints on a node that a bridge may remove.

    They are those that it has noted, and those that follow from the node's state and have no time: the API server's
    admission gives them to a new node, for whichever controller manages such taints. Kubernetes' own controller gives
    its taints a time, so they are not touched.
    """
    given = {
        identity_of(taint)
        for taint in taints_of(node)
        if not taint.get("timeAdded") and follows_from_state(node, taint)
    }
    return own_taints(node) | given


def foreign_taints(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the taints that a user wants: those of others that do not follow from the node's state.

    What follows from it comes from conditions, which are mirrored. If Kubernetes' own controller sets such a taint,
    too, that is its decision and not a person's.
    """
    own = own_taints(node)
    return [
        dict(taint)
        for taint in taints_of(node)
        if identity_of(taint) not in own and not follows_from_state(node, taint)
    ]


def mirrored_taints(target: Mapping[str, Any], *, keeps: bool) -> dict[str, Any]:
    """Return the taints in the spec of a target as it is mirrored: all of them, or those that a user wants.

    Args:
        target: as its cluster has it.
        keeps: whether the cluster decides on its taints.
    """
    taints = list(map(dict, taints_of(target))) if keeps else foreign_taints(target)
    return {"taints": taints} if taints else {}


def own_conditions(node: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of conditions whose status a bridge has set last.

    It may still own other fields of a condition that a kubelet has written since, because these have not changed.
    """
    found: set[str] = set()
    for entry in (node.get("metadata") or {}).get("managedFields") or ():
        if entry.get("manager") != FIELD_MANAGER or entry.get("subresource") != "status":
            continue
        fields = ((entry.get("fieldsV1") or {}).get("f:status") or {}).get("f:conditions") or {}
        for name, owned in fields.items():
            if name.startswith("k:") and "f:status" in owned:
                found.add(str(orjson.loads(name[2:]).get("type", "")))
    return frozenset(found)


def own_labels(found: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels of an object that a bridge has set last."""
    return frozenset(
        name.removeprefix("f:")
        for entry in (found.get("metadata") or {}).get("managedFields") or ()
        if entry.get("manager") == FIELD_MANAGER
        for name in ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or ()
        if name.startswith("f:")
    )


class SeenCondition(NamedTuple):
    """A condition of a target as the cluster has it."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SeenTarget(ABC):
    """A target as it was last seen.

    Attributes:
        conditions: those that can be reported, by type.
        odd_conditions: the others: `type=status` of those whose type or status a report cannot have.
        taints: all of its taints.
        own_taints: those that a bridge has noted as its own.
        managed_taints: those that it may remove.
        leaving: whether it is being deleted.
        heartbeat: what changes when it gives a sign of life beside its Lease. Empty if nothing does.
    """

    name: str
    uid: str
    version: str
    taints: Sequence[Mapping[str, Any]]
    own_taints: frozenset[Identity]
    managed_taints: frozenset[Identity]
    conditions: Mapping[str, SeenCondition]
    odd_conditions: frozenset[str]
    leaving: bool
    heartbeat: str

    @property
    @abstractmethod
    def about(self) -> Regarding:
        """Its reference in events."""


_STATUSES: Final = frozenset(ConditionStatus)
_CONDITION_TYPE: Final[TypeAdapter[str]] = TypeAdapter(ConditionType)


@lru_cache(maxsize=4096)
def _is_reportable(kind: str) -> bool:
    """Return whether a report may have this type. Kubernetes validates neither the type nor the status of any."""
    try:
        _CONDITION_TYPE.validate_python(kind)
    except ValidationError:
        return False
    return True


def conditions_of(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the conditions of an object as the cluster has them."""
    return (found.get("status") or {}).get("conditions") or ()


def target_fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that all targets have, without a heartbeat."""
    metadata = found["metadata"]
    conditions: dict[str, SeenCondition] = {}
    odd: set[str] = set()
    for one in conditions_of(found):
        kind, status = str(one.get("type") or ""), str(one.get("status") or ConditionStatus.UNKNOWN)
        if status in _STATUSES and _is_reportable(kind):
            conditions[kind] = SeenCondition(status, str(one.get("reason") or ""), str(one.get("message") or ""))
        else:
            odd.add(f"{kind}={status}")
    return {
        "name": str(metadata["name"]),
        "uid": str(metadata.get("uid") or ""),
        "version": str(metadata.get("resourceVersion") or ""),
        "taints": taints_of(found),
        "own_taints": own_taints(found),
        "managed_taints": managed_taints(found),
        "conditions": conditions,
        "odd_conditions": frozenset(odd),
        "leaving": bool(metadata.get("deletionTimestamp")),
        "heartbeat": "",
    }
