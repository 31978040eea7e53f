"""`ClusterTaintPolicy` (policy.karmada.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.families.propagation import clusters_text
from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, CUSTOM_AGE, TableColumn, of, taints
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.policies import ClusterTaintPolicy


class ClusterTaintPolicyKind(Kind["ClusterTaintPolicy"]):
    """A policy that adds and removes taints by the conditions of clusters."""

    group = "policy.karmada.io"
    versions = ("v1alpha1",)
    kind = "ClusterTaintPolicy"
    plural = "clustertaintpolicies"
    model_module = "policies"
    mirrorable = True
    cli_names = ("ctp",)
    namespaced = False
    order = 150
    apply_order = 60
    columns = (
        TableColumn("CLUSTERS", of(lambda found: clusters_text(at(found, "spec", "targetClusters")))),
        TableColumn("TAINTS", taints(None)),
        AGE,
    )
    api_columns = (CUSTOM_AGE,)

    @override
    def validate(self, resource: ClusterTaintPolicy, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.karmada import validate_cluster_taint_policy

        return validate_cluster_taint_policy(resource, allow_no_execute=gates.allow_no_execute_taint_policy)

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        from moorage.apiserver.rules.feature_gates import CONFIGURATION, FAILOVER_SWITCH, ineffective_evictions

        if not gates.failover:
            return (f"the policy has no effect until {FAILOVER_SWITCH} of {CONFIGURATION} is true",)
        return ineffective_evictions(document.get("spec") or {}, gates)


KIND = ClusterTaintPolicyKind()
