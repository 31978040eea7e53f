"""`ClusterPropagationPolicy` (policy.karmada.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.propagation import Propagation

if TYPE_CHECKING:
    from moorage_schemas.resources.policies import ClusterPropagationPolicy


class ClusterPropagationPolicyKind(Propagation["ClusterPropagationPolicy"]):
    """A policy that places resources of any namespace on clusters."""

    kind = "ClusterPropagationPolicy"
    plural = "clusterpropagationpolicies"
    singular = "clusterpropagationpolicy"
    mirrorable = True
    short_names = ("cpp",)
    namespaced = False
    order = 170
    apply_order = 110

    @property
    @override
    def model(self) -> type[ClusterPropagationPolicy]:
        from moorage_schemas.resources.policies import ClusterPropagationPolicy

        return ClusterPropagationPolicy


KIND = ClusterPropagationPolicyKind()
