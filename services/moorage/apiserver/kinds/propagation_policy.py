"""`PropagationPolicy` and `ClusterPropagationPolicy` (policy.karmada.io/v1alpha1)."""

from __future__ import annotations

from typing import Any

from moorage.apiserver.kinds.families.propagation import Propagation


class PropagationPolicyKind(Propagation[Any]):
    """A policy that places resources of its namespace on clusters."""

    kind = "PropagationPolicy"
    plural = "propagationpolicies"
    model_module = "policies"
    mirrorable = True
    short_names = ("pp",)
    namespaced = True
    order = 160
    apply_order = 100


class ClusterPropagationPolicyKind(Propagation[Any]):
    """A policy that places resources of any namespace on clusters."""

    kind = "ClusterPropagationPolicy"
    plural = "clusterpropagationpolicies"
    model_module = "policies"
    mirrorable = True
    short_names = ("cpp",)
    namespaced = False
    order = 170
    apply_order = 110


KINDS = (PropagationPolicyKind(), ClusterPropagationPolicyKind())
