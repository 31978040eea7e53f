"""Which policy places a resource: upstream's rules for matching, priority and preemption.

See docs/domain.md, "PropagationPolicy".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.core.apimachinery.hashes import document_hash
from moorage.core.apimachinery.selectors import matches_labels
from moorage_schemas.resource import resource_key
from moorage_schemas.resources.policies import (
    ClusterPropagationPolicy,
    PropagationPolicy,
    PropagationSpec,
    ResourceSelector,
)

NAMESPACED: Final = "PropagationPolicy"
CLUSTER_WIDE: Final = "ClusterPropagationPolicy"

ALWAYS: Final = "Always"
"""The value of `preemption` with which a policy takes over what one of lower priority has claimed."""

_MATCHES_ALL, _MATCHES_LABELS, _MATCHES_NAME = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Claimable:
    """A resource, as far as policies look at it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A policy that places resources."""

    key: str
    """The resource key."""

    namespace: str
    """Empty of one for all namespaces."""

    name: str
    spec: PropagationSpec
    annotations: Mapping[str, str]
    placement_key: str
    """A hash of the placement: another one means that what it placed is to be placed anew."""

    @property
    def cluster_wide(self) -> bool:
        """Whether it is for all namespaces."""
        return not self.namespace

    @property
    def selects(self) -> frozenset[tuple[str, str]]:
        """(apiVersion, kind) of what it may claim."""
        return frozenset((one.api_version, one.kind) for one in self.spec.resource_selectors)


def policy_of(document: Mapping[str, Any]) -> Policy:
    """The policy that an object declares.

    Raises:
        ValidationError: the object is no such policy.
    """
    model = ClusterPropagationPolicy if document.get("kind") == CLUSTER_WIDE else PropagationPolicy
    policy = model.model_validate(document)
    meta = policy.metadata
    namespace = "" if model is ClusterPropagationPolicy else meta.namespace
    placement = policy.spec.placement.model_dump(mode="json", exclude_none=True)
    return Policy(
        key=resource_key(policy.kind, namespace, meta.name),
        namespace=namespace,
        name=meta.name,
        spec=policy.spec,
        annotations=meta.annotations or {},
        placement_key=document_hash(placement),
    )


def match_of(policy: Policy, resource: Claimable) -> int:
    """How closely a policy's selectors name a resource: by name, by labels, all of its kind; 0 when not at all."""
    return max((_closeness(one, policy, resource) for one in policy.spec.resource_selectors), default=0)


def claim(resource: Claimable, policies: Sequence[Policy], held: str = "") -> Policy | None:
    """The policy that places a resource; None when none selects it.

    A policy that has claimed it keeps it for as long as it selects it, unless one takes it over.

    Args:
        resource: what is to be placed.
        policies: those that may select it.
        held: the key of the policy that has claimed it; empty when none has.
    """
    found = {
        policy.key: (policy, closeness)
        for policy in policies
        if policy.namespace in {"", resource.namespace} and (closeness := match_of(policy, resource))
    }
    if held not in found:
        return _best(found.values())
    holder = found[held][0]
    return _best(item for item in found.values() if _takes_over(item[0], holder)) or holder


def _takes_over(policy: Policy, holder: Policy) -> bool:
    """Whether a policy takes over what another has claimed: one of the namespace always goes before one for all."""
    if policy is holder or policy.spec.preemption != ALWAYS or (policy.cluster_wide and not holder.cluster_wide):
        return False
    if holder.cluster_wide and not policy.cluster_wide:
        return True
    return policy.spec.priority > holder.spec.priority


def _best(found: Iterable[tuple[Policy, int]]) -> Policy | None:
    """One of the namespace before one for all, then by priority, then the closest, then the first by name."""
    ranked = sorted(found, key=lambda item: (item[0].cluster_wide, -item[0].spec.priority, -item[1], item[0].name))
    return ranked[0][0] if ranked else None


def _closeness(selector: ResourceSelector, policy: Policy, resource: Claimable) -> int:
    namespace = selector.namespace or policy.namespace
    if (selector.api_version, selector.kind) != (resource.api_version, resource.kind):
        return 0
    if namespace and namespace != resource.namespace:
        return 0
    if selector.name:
        return _MATCHES_NAME if selector.name == resource.name else 0
    if selector.label_selector is None:
        return _MATCHES_ALL
    return _MATCHES_LABELS if matches_labels(selector.label_selector, resource.labels) else 0
