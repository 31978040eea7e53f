"""The bound pods that disruption budgets select, and what a budget allows of them now.

The governor decides evictions by taints, and writes the counts of `budgets` for people, at most once a second. Requests
to evict a pod are decided by the gateway, which must not rest on counts of a second ago. So it counts for itself, from
the same records and by the same rules (docs/domain.md, "PodDisruptionBudget").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from sys import intern
from typing import Any, Final, NamedTuple

from typing_extensions import override

from moorage.apiserver.kinds.status import reported
from moorage.apiserver.kinds.status.controllers import OwnerIndex
from moorage.apiserver.kinds.status.index import Groups, Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.decide.conditions.heartbeats import BY_BRIDGE
from moorage.decide.disruption.budgets import (
    DISRUPTION,
    Disruption,
    Disruptions,
    disruptions,
    is_healthy,
)
from moorage.decide.disruption.guard_index import Guards
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.nodes.pod_controllers import scaled_template
from moorage.runtime.process.memory import Pool
from moorage_schemas.condition import HEALTHY, ConditionStatus
from moorage_schemas.eviction import EvictionState
from moorage_schemas.keys import BindingKey, ResourceKey
from moorage_schemas.resources.workload_kinds import POD, SCALED

_POD: Final = f"{POD}/"
_MAKERS: Final = tuple(f"{kind}/" for kind in SCALED)
_BUDGET: Final = f"{DISRUPTION}/"
_HEALTHY: Final = f"|{HEALTHY}"


class PodGroup(NamedTuple):
    """The things that pods have in common: their owner, and their labels."""

    owner: str
    """The key of the owner. Empty for pods without one."""

    labels: tuple[tuple[str, str], ...]


class DisruptionIndex(Index):
    """The bound pods of each namespace, counted by owner and labels, and those that do not count as healthy."""

    topics = ("bindings", "workload-conditions", "evictions", "resources", "conditions")

    def __init__(self) -> None:
        self.groups: dict[str, Counter[PodGroup]] = {}
        """The number of bound pods of each group, by namespace."""

        self.unhealthy: dict[str, dict[str, PodGroup]] = {}
        """The group of each binding whose pod is unhealthy, by namespace and record key."""

        self.leaving: dict[str, dict[str, PodGroup]] = {}
        """The group of each binding that is about to end, by namespace and record key: its pod was deleted, or its
        eviction is requested. Orders about replicas are in the records of their owners."""

        self.guards = Guards()
        """The disruption budgets."""

        self.templates: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {}
        """The labels of the pods of each controller that states how many it makes, by namespace."""

        self._shared: Pool[tuple[tuple[str, str], ...]] = Pool()
        self._of_pod = Groups()
        """The keys of the bindings of each pod that is its own owner."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "bindings":
            if key.startswith(_POD):
                return self._bound(key, before, after, records)
        elif topic == "resources" and key.startswith(_BUDGET):
            with suppress(ValueError):  # it was validated when it was declared
                self.guards.put(key, after.object if after is not None else None)
        elif topic == "resources" and key.startswith(_MAKERS):
            self._put_template(key, scaled_template(after) if after is not None else None)
        else:
            for binding in self._touched(topic, key, before, after, records):
                self._look(binding, records)
        return ()

    def _put_template(self, key: str, labels: Mapping[str, str] | None) -> None:
        namespace = ResourceKey.parse(key).namespace
        if labels is not None:
            found = tuple((intern(name), intern(value)) for name, value in sorted(labels.items()))
            self.templates.setdefault(namespace, {})[key] = self._shared.shared(found, found)
        elif (known := self.templates.get(namespace)) is not None and known.pop(key, None) is not None and not known:
            del self.templates[namespace]

    def _touched(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[str]:
        """Return the keys of the bindings about whose pods another record has changed something."""
        if (node := reported.turned_node(topic, key, before, after)) or topic == "conditions":
            return [str(BindingKey(pod, node)) for pod in records.index(reported.NodeIndex).pods.get(node, ())]
        if not key.startswith(_POD):
            return ()
        if topic == "workload-conditions":
            return (key.removesuffix(_HEALTHY),) if key.endswith(_HEALTHY) else ()
        return (key.rpartition("|")[0],) if topic == "evictions" else tuple(self._of_pod.get(key, ()))

    def _bound(self, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        """Take a change of a binding in. Return the disruption budgets that select the first pod of a group.

        The governor counts at most once a second, and until then their status counts here.
        """
        pod = BindingKey.parse(key).workload
        namespace = ResourceKey.parse(pod).namespace
        if before is not None:
            groups, group = self.groups[namespace], _group(before)
            groups[group] -= 1
            if not groups[group]:
                del groups[group]
            if not groups:
                del self.groups[namespace]
            self._of_pod.discard(pod, key)
        first: PodGroup | None = None
        if after is not None:
            group, groups = _group(after), self.groups.setdefault(namespace, Counter())
            first = group if group not in groups else None
            groups[group] += 1
            if not group.owner:
                self._of_pod.add(pod, key)
        self._look(key, records)
        found = () if first is None else self.guards.disruptions_of(pod, dict(first.labels))
        return [ObjectId.of(one.key) for one in found]

    def _look(self, key: str, records: Records) -> None:
        """Look at one binding again: whether its pod is unhealthy, and whether it is about to end."""
        bound, (pod, target) = records.bindings.get(key), BindingKey.parse(key)
        namespace = ResourceKey.parse(pod).namespace
        ill = bound is not None and not is_healthy(
            _status(records, pod, target, bound),
            mirrored=bool(bound.deployer),
            node_ready=reported.lost_node(records, target) is None,
        )
        leaves = bound is not None and (_is_requested(key, bound, records) or _is_gone(pod, bound, records))
        for there, found in ((ill, self.unhealthy), (leaves, self.leaving)):
            if there and bound is not None:
                found.setdefault(namespace, {})[key] = _group(bound)
            else:
                _drop(found, namespace, key)


def _status(records: Records, pod: str, target: str, bound: Any) -> ConditionStatus | None:
    """Return the last reported health of a bound pod. Of a mirrored pod, only reports of bridges count."""
    report = reported.health_report(records, pod, target)
    if report is None or (bound.deployer and not report.source.startswith(BY_BRIDGE)):
        return None
    return report.status


def _is_requested(key: str, bound: Any, records: Records) -> bool:
    """Return whether the eviction of a binding is requested."""
    task = records.evictions.get(f"{key}|{bound.generation}")
    return task is not None and task.state is EvictionState.REQUESTED


def _is_gone(pod: str, bound: Any, records: Records) -> bool:
    """Return whether a bound pod that is its own owner was deleted, or is being deleted."""
    if bound.owner != bound.workload:
        return False
    declared = records.resources.get(pod)
    return declared is None or declared.uid != bound.uid or bool(declared.object["metadata"].get("deletionTimestamp"))


def selecting(pod: str, labels: Mapping[str, str], records: Records) -> tuple[Disruption, ...]:
    """Return the disruption budgets that select a pod, by name.

    Args:
        pod: its key.
        labels: its labels.
        records: the latest records.
    """
    return records.index(DisruptionIndex).guards.disruptions_of(pod, labels)


def allowed_now(guard: Disruption, records: Records) -> Disruptions:
    """Return the disruptions that a budget allows now, given all evictions and deletions in progress."""
    index, namespace = records.index(DisruptionIndex), guard.namespace
    groups = index.groups.get(namespace) or Counter[PodGroup]()
    chosen = {group: count for group, count in groups.items() if guard.selects(dict(group.labels))}
    away = dict(index.unhealthy.get(namespace, {})) | index.leaving.get(namespace, {})
    owners = {group.owner for group in chosen} - {""}
    for owner in owners:
        away |= dict.fromkeys(_ordered_away(owner, records), PodGroup(owner, ()))
    unavailable = sum(1 for key in away if _is_chosen(key, chosen, records))
    pods = sum(chosen.values())
    # Those count as well of which all pods still wait for a node.
    made_by = records.index(OwnerIndex).made_by
    waiting = [
        key
        for key, labels in (index.templates.get(namespace) or {}).items()
        if guard.selects(dict(labels)) and next(iter(made_by.get(key, ())), "").startswith(_POD)
    ]
    scale = _scale({*owners, *waiting}, records)
    return disruptions(guard, pods=pods, healthy=pods - unavailable, scale=scale)


def is_unhealthy(binding: str, namespace: str, records: Records) -> bool:
    """Return whether the pod of a binding is unhealthy."""
    return binding in records.index(DisruptionIndex).unhealthy.get(namespace, {})


def _ordered_away(owner: str, records: Records) -> Iterator[str]:
    """Yield the bindings of an owner's pods that are to be ended, and are not yet."""
    declared = records.resources.get(owner)
    for order in declared.pods if declared is not None else ():
        placed = records.placements.get(order.pod)
        if not order.node and placed is not None and placed.uid == order.uid and placed.target is not None:
            yield f"{order.pod}|{placed.target.key}"


def _is_chosen(key: str, chosen: dict[PodGroup, int], records: Records) -> bool:
    bound = records.bindings.get(key)
    return bound is not None and _group(bound) in chosen


def _scale(owners: Iterable[str], records: Records) -> int | None:
    wanted = 0
    for key in owners:
        declared = records.resources.get(key)
        if declared is None or ResourceKey.parse(key).kind not in SCALED:
            return None
        replicas = at(declared.object, "spec", "replicas")
        wanted += 1 if replicas is None else int(replicas)
    return wanted


def _group(bound: Any) -> PodGroup:
    own = bound.owner == bound.workload
    return PodGroup("" if own else bound.owner.key, tuple(sorted(bound.labels.items())))


def _drop(by_namespace: dict[str, dict[str, PodGroup]], namespace: str, key: str) -> None:
    found = by_namespace.get(namespace)
    if found is not None and found.pop(key, None) is not None and not found:
        del by_namespace[namespace]
