"""What a policy and a resource say together: how much is to be placed, and on what terms."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from moorage.core.scheduling.karmada.policy_match import Policy
from moorage.runtime.settings import Settings
from moorage.workers.placement.engine.owner import Owner
from moorage.workers.placement.karmada.resource import RESOURCE_BINDING, ClaimedResource
from moorage.workers.placement.karmada.view import Terms
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.taint import Toleration

DIRECTLY: Final = "Directly"
GRACEFULLY: Final = "Gracefully"

WITHOUT_REPLACEMENT: Final = "moorage.io/evict-without-replacement"
"""The annotation of a policy by which work leaves a cluster although no other one takes it."""

_LONGEST_NAME: Final = 253
_LONGEST_GRACE: Final = 2**31 - 1  # seconds, as upstream's field holds them; some 68 years


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings by which resources leave clusters."""

    evicts: bool
    """Whether taints evict from clusters at all."""

    purge_mode: str
    grace: timedelta
    without_replacement: bool

    def purge_mode_of(self, policy: Policy) -> str:
        """How what a policy placed leaves: as it says, gracefully when it says only something else, else as is set."""
        failover = policy.spec.failover.cluster if policy.spec.failover else None
        if failover is None:
            return self.purge_mode
        return DIRECTLY if failover.purge_mode in {DIRECTLY, "Immediately"} else GRACEFULLY

    def grace_of(self, policy: Policy) -> timedelta:
        """How long the old place stays at most."""
        failover = policy.spec.failover.cluster if policy.spec.failover else None
        seconds = failover.grace_period_seconds if failover else None
        return self.grace if seconds is None else timedelta(seconds=min(max(0, seconds), _LONGEST_GRACE))

    def forces(self, policy: Policy) -> bool:
        """Whether work leaves although nothing takes its place."""
        return self.without_replacement or policy.annotations.get(WITHOUT_REPLACEMENT) == "true"


def rules_of(settings: Settings) -> Rules:
    """The rules that the settings make."""
    return Rules(
        evicts=settings.failover and settings.enable_no_execute_taint_eviction,
        purge_mode=settings.no_execute_taint_eviction_purge_mode,
        grace=timedelta(seconds=min(settings.graceful_eviction_timeout, _LONGEST_GRACE)),
        without_replacement=settings.evict_without_replacement,
    )


@dataclass(frozen=True, slots=True)
class Demand:
    """How much there is of a resource."""

    replicas: int = 0
    """0 of what has none, and of what is scaled to none: it goes whole to each cluster."""

    requests: tuple[tuple[str, int], ...] = ()
    """What one replica takes."""

    error: str = ""
    """Why it cannot be read."""


def demand_of(owner: Owner | None, rules: tuple[DedicatedNodes, ...], rules_version: int) -> Demand:
    """How much there is of a resource, as upstream's interpreter reads it.

    Args:
        owner: of its pods; None of a resource that makes none.
        rules: the fleet's rules for dedicated nodes.
        rules_version: tells these rules from those before.
    """
    if owner is None:
        return Demand()
    if owner.error:
        return Demand(error=owner.error)
    replicas = owner.controller.replicas if owner.controller is not None else 1
    requests = owner.shape(rules, rules_version).requests
    return Demand(replicas, requests if replicas else ())


def terms_of(policy: Policy, resource: ClaimedResource, demand: Demand, rules: Rules, replicas: int) -> Terms:
    """What the binding to a cluster with so many replicas says."""
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
    )


def binding_ref(resource: ClaimedResource) -> WorkloadRef:
    """The workload that a claimed resource is: named after it and its kind, as upstream names a binding."""
    ending = f"-{resource.ref.kind.lower()}"
    name = resource.ref.name
    if len(name) + len(ending) > _LONGEST_NAME:
        ending = f"-{hashlib.blake2b(name.encode(), digest_size=5).hexdigest()}{ending}"
        name = name[: _LONGEST_NAME - len(ending)]
    return WorkloadRef(kind=RESOURCE_BINDING, namespace=resource.ref.namespace, name=name + ending)


def binding_uid(resource: ClaimedResource) -> str:
    """The uid of the binding of a resource, in the form of a UUID."""
    text = hashlib.blake2b(f"{RESOURCE_BINDING} {resource.uid}".encode(), digest_size=16).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
