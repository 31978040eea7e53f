"""Freshness: what is read to its present end before a decision, and the lag of the services before this one.

A record may make an eviction come due, but a record alone never requests an eviction. The eviction becomes pending. It
is decided on once all present records of taints, bindings, requests to leave and pauses have been read, so a backlog
evicts nothing. A withdrawal of a request is such a record, in the transaction of what was withdrawn. The
same holds for what the services before this one are about to change: condition-ingest and the taint-manager with
records about the target, and placement with records about the workload or its owner.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from moorage.decide.conditions.reports import reported_binding, reported_status
from moorage.decide.disruption.eviction_transitions import Lag
from moorage.decide.disruption.leave_verdict import deadline_of_demand
from moorage.runtime.service import CHECK_LAG_AGAIN, Needs, Upstream
from moorage.workers.eviction.check import EvictionCheck
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.keys import ConditionKey, ResourceKey, split_cluster
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import target_of_resource
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    EVICTION_REQUESTS,
    RESOURCES,
    TAINTS,
    WORKLOAD_CONDITIONS,
    ZONE_GRANTS,
    Topic,
)

_LAG_TOLERATED: Final = timedelta(seconds=2)
"""How long this lag is not reported. Services commit records without output within a second."""

_CLUSTERS: Final = f"{TargetKind.CLUSTER.value}/"

_POLICIES: Final = "policies"
"""Stands for the policies that place work on clusters, among the keys about which a service lags."""

_POLICY_KINDS: Final = ("PropagationPolicy/", "ClusterPropagationPolicy/")


def _tainted(topic: Topic, key: str, _value: bytes) -> str | None:
    """Return the target of a record that the taint-manager reads."""
    if topic is CONDITIONS:
        return ConditionKey.parse(key).target
    if topic is ZONE_GRANTS:
        return key
    target = target_of_resource(key)
    return None if target is None else target.key


def _reported_on(_topic: Topic, key: str, value: bytes) -> str | None:
    """Return the target of a report about it. Reports about workloads change no taints."""
    return None if reported_binding(key, value) is not None else key


def _placed(_topic: Topic, key: str, _value: bytes) -> str | None:
    """Return the workload of a record that placement reads, or the owner of workloads."""
    return _POLICIES if key.startswith(_POLICY_KINDS) else _of_workload(key)


def _of_workload(key: str) -> str | None:
    """Return a key if it is about a workload or an owner of workloads, which have a namespace."""
    return key if ResourceKey.parse(key).namespace else None


_TAINT_MANAGER: Final = Upstream("taint-manager", (RESOURCES, CONDITIONS, ZONE_GRANTS), TAINTS, _tainted, via=TAINTS)
_CONDITION_INGEST: Final = Upstream(
    "condition-ingest",
    (CONDITION_REPORTS,),
    CONDITIONS,
    _reported_on,
    via=TAINTS,
    teller="taint-manager",
    states=reported_status,
)
_PLACEMENT: Final = Upstream("placement", (RESOURCES,), BINDINGS, _placed, where=_of_workload)
NEEDS: Final = Needs(
    (TAINTS, BINDINGS, EVICTION_REQUESTS, WORKLOAD_CONDITIONS),
    frozenset({RESOURCES}),
    (_TAINT_MANAGER, _CONDITION_INGEST, _PLACEMENT),
)
"""The data to read to its present end before a decision."""


def is_cluster(target: str) -> bool:
    """Return whether the key of a target is that of a Karmada cluster."""
    return split_cluster(target)[1].startswith(_CLUSTERS)


def needs(state: EvictionPartition) -> Needs | None:
    """Return the data to read for the pending evictions, and the keys that the lag may concern; None for nothing."""
    if not state.pending:
        return None
    if any(is_cluster(key) for key, _ in state.pending):
        return NEEDS  # policies are in any partition
    return replace(NEEDS, keys=frozenset(key for place in state.pending for key in keys_of(state, place)))


def keys_of(state: EvictionPartition, place: tuple[str, str]) -> tuple[str, ...]:
    """Return the target of an eviction, its workload, and the workload's owner."""
    key, workload = place
    target = state.targets.get(key)
    binding = target.bindings.get(workload) if target is not None else None
    return (key, workload, binding.owner) if binding is not None and binding.owner else place


def lag_of(it: EvictionCheck) -> Lag:
    """Return for how long a service before this one has had records about a pending eviction to process.

    The taint-manager also lags if the taints of the target have to change by now. The pending eviction notes the wait.
    """
    fresh, pending = it.fresh, it.pending
    if fresh is None or pending is None:
        return Lag.NONE
    if fresh.lagging:
        policies = (_POLICIES,) if is_cluster(it.target) else ()
        it.lagging = fresh.lags(*keys_of(it.state, it.place), *policies)
    if not it.lagging and it.bound.is_undecided(fresh.now):
        it.lagging = "taint-manager"
    if not it.lagging:
        return Lag.NONE
    since = pending.waited or fresh.now
    kept = pending.kept or (fresh.now if pending.answer is not None else None)
    is_long = fresh.now - since >= _LAG_TOLERATED
    it.pending = replace(pending, waited=since, kept=kept, named=it.lagging if is_long else pending.named)
    if not is_long:
        return Lag.BRIEF
    return Lag.LONG if pending.named in {"", it.lagging} else Lag.OTHER


def wait(it: EvictionCheck) -> None:
    """Decide on the eviction again when the services may have caught up."""
    if it.fresh is not None and it.pending is not None:
        it.state.wait(it.place, it.pending, it.fresh.now + CHECK_LAG_AGAIN)


def await_deadline(it: EvictionCheck) -> None:
    """Decide on the eviction again at its deadline. One that is not decided on now stays pending."""
    deadline = deadline_of_demand(it.verdict)
    if it.pending is not None and deadline is not None:
        it.state.wait_for_deadline(it.place, it.pending, deadline)
