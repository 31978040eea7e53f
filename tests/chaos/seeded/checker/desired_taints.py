"""The taints that a target's state and people require, derived independently from docs/domain.md, "Taint origins"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.chaos.seeded.checker.parsed_history import Json, Run, Seen, when

Identity = tuple[str, str]
"""Key and effect of a taint."""

_BOTH: Final = ("NoSchedule", "NoExecute")
_ONE: Final = ("NoSchedule",)
AVAILABLE: Final = "ManagedClusterConditionAvailable"


@dataclass(frozen=True, slots=True)
class Row:
    """While a condition has this status, the target carries the key with these effects."""

    condition: str
    status: str
    key: str
    effects: tuple[str, ...]


ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    "Node": (
        Row("Ready", "False", "node.kubernetes.io/not-ready", _BOTH),
        Row("Ready", "Unknown", "node.kubernetes.io/unreachable", _BOTH),
        Row("MemoryPressure", "True", "node.kubernetes.io/memory-pressure", _ONE),
        Row("DiskPressure", "True", "node.kubernetes.io/disk-pressure", _ONE),
        Row("PIDPressure", "True", "node.kubernetes.io/pid-pressure", _ONE),
        Row("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable", _ONE),
    ),
    "Cluster": (
        Row("Ready", "False", "cluster.karmada.io/not-ready", _ONE),
        Row("Ready", "Unknown", "cluster.karmada.io/unreachable", _ONE),
    ),
    "ManagedCluster": (
        Row(AVAILABLE, "False", "cluster.open-cluster-management.io/unavailable", ("NoSelect",)),
        Row(AVAILABLE, "Unknown", "cluster.open-cluster-management.io/unreachable", ("NoSelect",)),
    ),
}

UNSCHEDULABLE: Final = ("node.kubernetes.io/unschedulable", "NoSchedule")
UNINITIALIZED: Final = ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule")


def row_of(kind: str, identity: Identity) -> Row | None:
    """The row that keeps a taint; None when no condition does."""
    return next((row for row in ROWS.get(kind, ()) if row.key == identity[0] and identity[1] in row.effects), None)


def incident_of(seen: Seen) -> tuple[object, object]:
    """What a grant, or a set of taints, is about: which life of a node, and which of its incidents.

    A node that is made again counts its incidents from the beginning.
    """
    return seen.data.get("targetUid", ""), seen.data.get("incident")


def kind_of(target: str) -> str:
    """The kind of a target's key."""
    return target.partition("/")[0]


def resource_key(target: str) -> str:
    """The key of a target's record in `resources`."""
    kind, _, name = target.partition("/")
    return f"{kind}//{name}"


def uid_of(resource: Seen) -> str:
    """The uid of a declared object."""
    return str((resource.data["object"].get("metadata") or {}).get("uid") or "")


def explicit(resource: Seen) -> dict[Identity, Json]:
    """The taints that people want there, by their last word on each."""
    wishes = resource.data.get("wishes") or ()
    return {(wish["key"], wish["effect"]): wish for wish in wishes if wish["present"]}


def of_spec(resource: Seen) -> set[Identity]:
    """What the spec of a node asks for: it is cordoned, or waits for its cloud provider."""
    obj = resource.data["object"]
    if obj.get("kind") != "Node":
        return set()
    spec, annotations = obj.get("spec") or {}, (obj.get("metadata") or {}).get("annotations") or {}
    wanted = set()
    if spec.get("unschedulable") is True:
        wanted.add(UNSCHEDULABLE)
    if annotations.get("moorage.io/cloud-provider") == "external" and not spec.get("providerID"):
        wanted.add(UNINITIALIZED)
    return wanted


def possible(run: Run, target: str, taint: Json, tainted: Seen, decision: Seen) -> bool:
    """Whether a NoExecute taint may still have been wanted when somebody was evicted for it.

    Told from what was acknowledged in `resources` and accepted in `conditions`, not from what was made of it. Where
    these say nothing it may: nobody knows the target or its condition, or a policy has added it and nobody took
    it away since.
    """
    kind, identity = kind_of(target), (str(taint["key"]), str(taint["effect"]))
    resources = _acknowledged(run, resource_key(target), decision)
    if any(one is None or one.gone for one in resources):
        return True  # not declared, or being deleted: its bindings end anyhow
    known = [one for one in resources if one is not None]
    row = row_of(kind, identity)
    if row is not None:
        # A built-in taint belongs to the state, whoever brought it in.
        return any(_asked(run, target, row, uid_of(one), decision) for one in known)
    if any(identity in explicit(one) for one in known):
        return True
    if "policy" in (taint.get("origins") or ()):
        return not any(_taken_away(one, identity, tainted) for one in known)
    return False


def _taken_away(resource: Seen, identity: Identity, tainted: Seen) -> bool:
    applied = tainted.data.get("wishesApplied", 0)
    return any(
        (wish["key"], wish["effect"]) == identity and not wish["present"] and wish["generation"] > applied
        for wish in resource.data.get("wishes") or ()
    )


def _acknowledged(run: Run, key: str, decision: Seen) -> list[Seen | None]:
    """The declared target at each time from the last edit that must have counted to the decision.

    One must have counted that was acknowledged and could be read: Kafka acknowledges a commit a moment before its
    records can be.
    """
    records = run.records("resources", key)
    by = run.before(decision)
    told = [
        (run.told.get((one.entry.topic, one.entry.partition, one.entry.offset)), one.entry.committed) for one in records
    ]
    least = max(
        (count for count, (time, read) in enumerate(told, 1) if time is not None and max(time, read) <= by), default=0
    )
    most = max(least, run.at_most("resources", key, decision))
    return [records[count - 1] if count else None for count in range(least, most + 1)]


def _asked(run: Run, target: str, row: Row, uid: str, decision: Seen) -> bool:
    """Whether a condition may have asked for its taint that evicts."""
    granted = run.states("zone-grants", target, decision, within=run.allowances.follow)
    if granted and all(one is not None and one.data.get("granted") is False for one in granted):
        return False  # the governor has taken it back
    for condition in run.states("conditions", f"{target}|{row.condition}", decision):
        if condition is None or condition.gone or condition.data.get("targetUid", "") not in {"", uid}:
            return True  # nothing is known
        # Not ready and unreachable are one state: the taint of the one goes when that of the other comes.
        if condition.data["status"] in {one.status for one in ROWS[kind_of(target)] if one.condition == row.condition}:
            return True
        since = when(condition.data, "statusSince")
        hold = max(run.settings("taint_remove_hold", 0))
        if hold and since is not None and since + hold >= decision.decided - run.skew - run.slack:
            return True
    return False
