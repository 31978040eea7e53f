"""`PropagationPolicy` (policy.karmada.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.propagation import Propagation

if TYPE_CHECKING:
    from moorage_schemas.resources.policies import PropagationPolicy


class PropagationPolicyKind(Propagation["PropagationPolicy"]):
    """A policy that places resources of its namespace on clusters."""

    kind = "PropagationPolicy"
    plural = "propagationpolicies"
    singular = "propagationpolicy"
    mirrorable = True
    short_names = ("pp",)
    namespaced = True
    order = 160
    apply_order = 100

    @property
    @override
    def model(self) -> type[PropagationPolicy]:
        from moorage_schemas.resources.policies import PropagationPolicy

        return PropagationPolicy


KIND = PropagationPolicyKind()
