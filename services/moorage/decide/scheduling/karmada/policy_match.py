"""Which policy places a resource: upstream's rules for matching, priority and preemption.

See docs/domain.md, "PropagationPolicy".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from moorage.decide.kubernetes.hashes import document_hash
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.scheduling.karmada.mirrored_bindings import KARMADA_SCHEDULER, SCHEDULER
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
"""The value of `preemption` with which a policy claims resources of a policy of lower priority."""

LAZY: Final = "Lazy"
"""The value of `activationPreference` with which a changed policy waits until its resources change."""

_OWN_SCHEDULERS: Final = frozenset({"", KARMADA_SCHEDULER, SCHEDULER})
"""The values of a policy's `schedulerName` for which Moorage chooses clusters. Mirrored bindings have others."""

_MATCHES_ALL, _MATCHES_LABELS, _MATCHES_NAME = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Claimable:
    """A resource, with the facts that policies consider."""

    api_version: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A policy that places resources."""

    key: str
    """The resource key of the policy."""

    namespace: str
    """Empty for a policy for all namespaces."""

    name: str
    spec: PropagationSpec
    annotations: Mapping[str, str]
    deleted: bool
    """Whether it is being deleted. It keeps the resources that it has claimed, and claims no others."""

    placement_key: str
    """A hash of the placement. If it changes, the resources that the policy has placed must be placed again."""

    created: datetime | None = None
    """When it was declared."""

    @property
    def lazy(self) -> bool:
        """Whether a change of the policy applies to a resource only when the resource changes."""
        return self.spec.activation_preference == LAZY

    @property
    def other_scheduler(self) -> str:
        """The name of another scheduler that chooses the clusters of its resources. Empty for Moorage."""
        return "" if self.spec.scheduler_name in _OWN_SCHEDULERS else self.spec.scheduler_name

    @property
    def cluster_wide(self) -> bool:
        """Whether the policy applies to all namespaces."""
        return not self.namespace

    @property
    def selects(self) -> frozenset[tuple[str, str]]:
        """(apiVersion, kind) of the resources that the policy may claim."""
        return frozenset((one.api_version, one.kind) for one in self.spec.resource_selectors)


def policy_of(document: Mapping[str, Any]) -> Policy:
    """Return the policy that an object declares. Raises ValidationError if the object is not such a policy."""
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
        deleted=meta.deletion_timestamp is not None,
        placement_key=document_hash(placement),
        created=meta.creation_timestamp,
    )


def match_of(policy: Policy, resource: Claimable) -> int:
    """Return how closely a policy's selectors match a resource: by name, labels or only kind. 0 means no match."""
    return max((_closeness(one, policy, resource) for one in policy.spec.resource_selectors), default=0)


def claim(resource: Claimable, policies: Sequence[Policy], held: str = "") -> Policy | None:
    """Return the policy that places a resource. None if none selects it.

    The policy that has claimed the resource keeps it as long as it selects it, unless another policy preempts it.

    Args:
        resource: the resource to place.
        policies: the policies that may select it.
        held: the key of the policy that has claimed it. Empty if none has.
    """
    found = {
        policy.key: (policy, closeness)
        for policy in policies
        if policy.namespace in {"", resource.namespace}
        and (policy.key == held or not policy.deleted)
        and (closeness := match_of(policy, resource))
    }
    if held not in found:
        return _best(found.values())
    holder = found[held][0]
    return _best(item for item in found.values() if _takes_over(item[0], holder)) or holder


def _takes_over(policy: Policy, holder: Policy) -> bool:
    """Return whether a policy preempts another policy's claim. A namespaced policy outranks one for all namespaces."""
    if policy is holder or policy.spec.preemption != ALWAYS or (policy.cluster_wide and not holder.cluster_wide):
        return False
    if holder.cluster_wide and not policy.cluster_wide:
        return True
    return policy.spec.priority > holder.spec.priority


def _best(found: Iterable[tuple[Policy, int]]) -> Policy | None:
    """Return the best match: namespaced before for all namespaces, then by priority, closeness and name."""
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
