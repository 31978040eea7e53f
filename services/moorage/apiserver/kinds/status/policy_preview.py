"""The workloads that the taints of a TaintPolicy would make leave, by the present records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from moorage.decide.taints.desired.from_conditions import belongs_to_state
from moorage.decide.taints.desired.taint_policies import EVERY_CLUSTER, TaintingPolicy, TargetFacts, matches
from moorage.decide.taints.dialects.table import DIALECTS
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, verdict
from moorage_schemas.keys import BindingKey

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Records
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.taint import Taint

KEYS: Final = 500_000
"""The maximum number of record keys that one answer reads: a fraction of a second."""

BINDINGS: Final = 10_000
"""The maximum number of bindings that one answer decodes."""

COMMAND: Final = "moorage simulate -f FILE"


@dataclass(slots=True)
class PolicyPreview:
    """The targets whose conditions match, and the workloads there that do not tolerate the taints."""

    targets: int = 0
    at_once: int = 0
    later: int = 0
    """Those that tolerate the taints for some time."""

    complete: bool = True
    """False if there were more records than one answer reads."""


def preview(policy: TaintingPolicy, records: Records) -> PolicyPreview:
    """Return what the taints of a policy would evict if its conditions had held for long enough."""
    found = PolicyPreview()
    dialect = DIALECTS.get(policy.target_kind)
    if dialect is None:
        return found
    evicting = [taint for taint in policy.taints if taint.effect in dialect.evicting]
    new: dict[str, tuple[Taint, ...]] = {}
    for target, resource in _targets(policy, records, found) if evicting else ():
        present = records.taints.get(target)
        known = {taint.identity for taint in present.taints} if present is not None else set()
        added = tuple(
            taint
            for taint in evicting
            if taint.identity not in known
            and not belongs_to_state(resource.object, taint.key, taint.effect, taint.value)
        )
        statuses = _statuses(target, resource, records) if added else {}
        if matches(policy.add, statuses) and not matches(policy.remove, statuses):
            new[target] = added
    found.targets = len(new)
    if not new:
        return found
    decoded = 0
    for key in _within(records.bindings, KEYS, found):
        taints = new.get(BindingKey.parse(key).target)
        bound = records.bindings.get(key) if taints is not None else None
        if taints is None or bound is None:
            continue
        if decoded == BINDINGS:
            found.complete = False
            break
        decoded += 1
        outcome = verdict(taints, bound.tolerations, seen_at=bound.bound_time, dialect=dialect)
        found.at_once += isinstance(outcome, EvictNow)
        found.later += isinstance(outcome, EvictAt)
    return found


def _targets(policy: TaintingPolicy, records: Records, found: PolicyPreview) -> Iterator[tuple[str, ResourceDeclared]]:
    """Yield the targets that a policy selects, with their keys."""
    kind, chosen = policy.target_kind, policy.targets
    cluster = chosen.cluster if chosen is not None else ""
    keys: Iterable[str]
    if chosen is not None and chosen.names and cluster != EVERY_CLUSTER:
        prefix = f"{cluster}:" if cluster else ""
        keys = [f"{prefix}{kind}//{name}" for name in chosen.names]
    else:
        every = _within(records.resources, KEYS, found)
        keys = (key for key in every if key.startswith(f"{kind}/") or f":{kind}/" in key)
    for key in keys:
        resource = records.resources.get(key)
        if resource is None or not policy.selects(TargetFacts.of(resource)):
            continue
        if resource.mirrored is None or not resource.mirrored.keeps_taints:
            yield key.replace("//", "/", 1), resource


def _statuses(target: str, resource: ResourceDeclared, records: Records) -> dict[str, tuple[str, ...]]:
    known = records.conditions.group(target)
    return {
        name: (condition.status.value,)
        for name, condition in known.items()
        if condition.target_uid in {"", resource.uid} or not resource.uid
    }


def _within(keys: Iterable[str], limit: int, found: PolicyPreview) -> Iterator[str]:
    """Yield the first keys, and note if there are more."""
    rest = iter(keys)
    yield from islice(rest, limit)
    if next(rest, None) is not None:
        found.complete = False


def preview_text(found: PolicyPreview) -> str:
    """Return the warning about a policy whose taints evict."""
    least = "" if found.complete else "at least "
    if not found.at_once and not found.later:
        left = "no workload" if found.complete else "none of the workloads that were counted"
        return f"the taints evict: by the present conditions, {left} would leave; {COMMAND} shows the effects"
    parts = [
        f"{number} {when}"
        for number, when in ((found.at_once, "at once"), (found.later, "after the tolerated time"))
        if number
    ]
    total = found.at_once + found.later
    workloads, targets = ("workload" if total == 1 else "workloads"), ("target" if found.targets == 1 else "targets")
    return (
        f"the taints evict: by the present conditions, {least}{total} {workloads} on {found.targets} {targets} would "
        f"leave ({', '.join(parts)}); {COMMAND} shows them"
    )


def evicts(document: Mapping[str, Any]) -> bool:
    """Return whether a policy has a taint that evicts work from its targets."""
    spec = document.get("spec") or {}
    dialect = DIALECTS.get((spec.get("targets") or {}).get("kind") or "")
    taints = spec.get("taints") or ()
    return dialect is not None and any(taint.get("effect") in dialect.evicting for taint in taints)
