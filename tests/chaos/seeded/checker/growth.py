"""Nothing grows once the fleet is constant: what is kept rests on what is declared, and no more comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.chaos.seeded.checker.desired_taints import resource_key
from tests.chaos.seeded.checker.parsed_history import Run, Seen, name_of, retentions, when
from tests.chaos.seeded.checker.violations import Violation

_OF_TARGETS: Final = ("conditions", "workload-conditions", "taints", "zone-members", "zone-grants", "timers")
"""Topics whose records are about one target each."""

_OF_EVICTIONS: Final = ("eviction-asks", "eviction-slots")
_UNDECLARED: Final = frozenset({"resource-eviction-rate"})
"""Budgets that no object declares."""

_HAPPENS: Final = ("condition-reports", "timer-fired", "taints", "zone-grants", "eviction-answers")
"""Topics of which every record shows that the fleet does not stand still: somebody has said something, or something has
come due: a deadline, a grace period, a hold, a zone's token, a budget's window or patience."""

_COMPACTED: Final = (
    *_OF_TARGETS,
    *_OF_EVICTIONS,
    "bindings",
    "placements",
    "evictions",
    "eviction-requests",
    "generation-floors",
    "zones",
    "budgets",
    "resources",
    "configuration",
)


def what_is_kept_is_declared(run: Run) -> Iterator[Violation]:
    """After quiet every key that is alive rests on something declared, or on a binding or eviction that does.

    - Conditions, taints, timers, and what zones know of a node: the target is declared.
    - Bindings: the target and the owner of the workload are. Placements: the owner is.
    - Evictions: the binding is there; or the eviction is over, for no longer than the retention.
    - What asks for an eviction, or counts it: the eviction is there.
    - Zones have members; budgets are declared; floors of generations are one for each partition.
    """
    if not (run.history.whole and run.history.quiet):
        return
    name = "what_is_kept_is_declared"
    for topic in _OF_TARGETS:
        for key, seen in run.table(topic).items():
            target = seen.data.get("target") or key.partition("|")[0]
            known = name_of(target) if isinstance(target, dict) else str(target)
            if resource_key(known) not in run.table("resources") and _is_ours(seen):
                yield Violation(name, seen.where, f"{known} is not declared")
    yield from _workloads(run)
    yield from _evictions(run)
    for key, zone in run.table("zones").items():
        if _is_ours(zone) and not any(one.data.get("zone") == key for one in run.table("zone-members").values()):
            yield Violation(name, zone.where, "the zone has no members")
    for key, budget in run.table("budgets").items():
        if _is_ours(budget) and key not in run.table("resources") and key not in _UNDECLARED:
            yield Violation(name, budget.where, "the budget is not declared")
    if len(run.table("generation-floors")) > run.history.partitions:
        yield Violation(name, "generation-floors", f"more keys than the {run.history.partitions} partitions")


def _workloads(run: Run) -> Iterator[Violation]:
    name, resources = "what_is_kept_is_declared", run.table("resources")
    for topic in ("bindings", "placements"):
        for key, seen in run.table(topic).items():
            owner = seen.data.get("owner") or seen.data.get("workload")
            if not _is_ours(seen) or not isinstance(owner, dict):
                continue
            target = key.partition("|")[2]
            if name_of(owner) not in resources:
                yield Violation(name, seen.where, f"{name_of(owner)} is not declared")
            elif target and resource_key(target) not in resources:
                yield Violation(name, seen.where, f"{target} is not declared")


def _evictions(run: Run) -> Iterator[Violation]:
    name, tasks = "what_is_kept_is_declared", run.table("evictions")
    oldest = run.history.ended - retentions(run)[-1] - run.skew - run.allowances.lateness
    for key, task in tasks.items():
        if not _is_ours(task) or key.rpartition("|")[0] in run.table("bindings"):
            continue
        if task.data["state"] in {"Completed", "Cancelled"} and (when(task.data, "decidedTime") or oldest) < oldest:
            yield Violation(name, task.where, "is over for longer than the retention")
    for topic in _OF_EVICTIONS:
        for key, seen in run.table(topic).items():
            if _is_ours(seen) and key not in tasks and not _still_counts(run, seen):
                yield Violation(name, seen.where, "its eviction is gone")


def _still_counts(run: Run, slot: Seen) -> bool:
    """Whether a budget may still count what went, though its eviction was kept for a shorter time.

    What went counts in a window until that ends, and as in progress while its owner has nothing in its place.
    """
    records = [one for one in run.records("evictions", slot.key) if not one.gone]
    if not slot.data.get("granted") or not records or records[-1].data["state"] != "Completed":
        return False
    owner = name_of(slot.data["owner"])
    if not slot.data.get("over") and not owner.startswith("Pod/") and owner in run.table("resources"):
        return True
    granted = when(slot.data, "grantedTime")
    windows = [
        float(seen.data["object"].get("spec", {}).get("windowSeconds", 0))
        for seen in run.of("resources")
        if not seen.gone and seen.key.startswith("EvictionBudget/")
    ]
    end = (granted or 0.0) + max(windows, default=0.0) + run.skew + run.allowances.lateness
    return end >= run.history.ended


def nothing_grows(run: Run) -> Iterator[Violation]:
    """While the fleet stands still no new key appears in a topic, and no state of a process gets more rows.

    It stands still from `History.rested` on if nobody says anything, and nothing that waited comes due (`_HAPPENS`).
    The reconcilers of all services have their rounds in that time.
    """
    rested = run.history.rested
    if rested is None or not run.history.quiet:
        return
    if any(seen.entry.committed > rested for topic in _HAPPENS for seen in run.of(topic)):
        return
    for topic in _COMPACTED:
        for key, records in run.keys(topic):
            before = [one for one in records if one.entry.committed <= rested]
            if not records[-1].gone and (not before or before[-1].gone):
                yield Violation("nothing_grows", records[-1].where, f"{key} is new, though nothing has happened")
    for place, (first, last) in sorted(run.history.rows.items()):
        if last > first:
            yield Violation("nothing_grows", place, f"has {last} rows instead of {first}, though nothing has happened")


def _is_ours(seen: Seen) -> bool:
    """Whether it comes from Moorage, and not from somebody outside."""
    return seen.source.startswith("moorage/")
