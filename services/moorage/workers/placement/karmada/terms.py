"""Derives the demand and the terms of bindings from a policy and a resource."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from moorage.decide.scheduling.karmada.policy_match import Policy
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.placement.engine.pod_source import PodSource
from moorage.workers.placement.karmada.cluster_view import Terms
from moorage.workers.placement.karmada.resource import ClaimedResource, Demand
from moorage_schemas.placement import LeavingTarget, PlacedTarget
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.workload_kinds import RESOURCE_BINDING
from moorage_schemas.taint import Toleration

DIRECTLY: Final = "Directly"
GRACEFULLY: Final = "Gracefully"

WITHOUT_REPLACEMENT: Final = "moorage.io/evict-without-replacement"
"""The annotation of a policy that makes work leave a cluster even if no other cluster takes it."""

_LONGEST_NAME: Final = 253
_LONGEST_GRACE: Final = 2**31 - 1  # seconds, the limit of upstream's field; about 68 years


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings by which resources leave clusters."""

    evicts: bool
    """Whether taints evict from clusters."""

    purge_mode: str
    grace: timedelta
    without_replacement: bool

    def purge_mode_of(self, policy: Policy) -> str:
        """Return the purge mode for the work that a policy has placed.

        A policy with `failover.cluster` determines it, and the default is Gracefully. For other policies, the setting
        applies.
        """
        failover = policy.spec.failover.cluster if policy.spec.failover else None
        if failover is None:
            return self.purge_mode
        return DIRECTLY if failover.purge_mode in {DIRECTLY, "Immediately"} else GRACEFULLY

    def grace_of(self, policy: Policy) -> timedelta:
        """Return the maximum time for which work stays on the cluster that it leaves."""
        failover = policy.spec.failover.cluster if policy.spec.failover else None
        seconds = failover.grace_period_seconds if failover else None
        return self.grace if seconds is None else timedelta(seconds=min(max(0, seconds), _LONGEST_GRACE))

    def forces(self, policy: Policy) -> bool:
        """Return whether work leaves even without a replacement."""
        return self.without_replacement or policy.annotations.get(WITHOUT_REPLACEMENT) == "true"


def rules_of(settings: Settings) -> Rules:
    """Return the rules that follow from the settings."""
    return Rules(
        evicts=settings.failover and settings.enable_no_execute_taint_eviction,
        purge_mode=settings.no_execute_taint_eviction_purge_mode,
        grace=timedelta(seconds=min(settings.graceful_eviction_timeout, _LONGEST_GRACE)),
        without_replacement=settings.evict_without_replacement,
    )


def demand_of(owner: PodSource | None, rules: tuple[DedicatedNodes, ...], rules_version: int) -> Demand:
    """Return the replicas and requests of a resource, as upstream's interpreter reads them.

    Args:
        owner: the source of its pods; None for a resource that creates none.
        rules: the fleet's rules for dedicated nodes.
        rules_version: distinguishes these rules from earlier ones.
    """
    if owner is None:
        return Demand()
    if owner.error:
        return Demand(error=owner.error)
    replicas = owner.controller.replicas if owner.controller is not None else 1
    requests = owner.shape(rules, rules_version).requests
    return Demand(replicas, requests if replicas else ())


def terms_of(
    policy: Policy, resource: ClaimedResource, demand: Demand, rules: Rules, placed: PlacedTarget | LeavingTarget
) -> Terms:
    """Return the terms of a binding to a cluster."""
    replicas, suspension = placed.replicas, policy.spec.suspension
    return Terms(
        tolerations=tuple(
            Toleration(
                key=one.key,
                operator=one.operator,
                value=one.value,
                effect=one.effect,
                toleration_seconds=one.toleration_seconds,
            )
            for one in policy.spec.placement.cluster_tolerations or ()
        ),
        requests=tuple((name, amount * replicas) for name, amount in demand.requests if amount * replicas),
        replicas=replicas,
        labels=tuple(sorted(resource.claimable.labels.items())),
        purge_mode=rules.purge_mode_of(policy),
        deployer=resource.mirrored.bridge if resource.mirrored is not None else "",
        suspended=suspension is not None and suspension.holds(placed.target.name),
        preserved=policy.spec.preserve_resources_on_deletion is True,
    )


def binding_ref(resource: ClaimedResource) -> WorkloadRef:
    """Return the workload of a claimed resource, named after the resource and its kind, as upstream's bindings are.

    A mirrored binding is the workload itself.
    """
    if resource.mirrored is not None:
        return resource.ref
    ending = f"-{resource.ref.kind.lower()}"
    name = resource.ref.name
    if len(name) + len(ending) > _LONGEST_NAME:
        ending = f"-{hashlib.blake2b(name.encode(), digest_size=5).hexdigest()}{ending}"
        name = name[: _LONGEST_NAME - len(ending)]
    return WorkloadRef(kind=RESOURCE_BINDING, namespace=resource.ref.namespace, name=name + ending)


def binding_uid(resource: ClaimedResource) -> str:
    """Return the uid of the binding of a resource, in the form of a UUID. A mirrored binding has its own."""
    if resource.mirrored is not None:
        return resource.uid
    text = hashlib.blake2b(f"{RESOURCE_BINDING} {resource.uid}".encode(), digest_size=16).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
