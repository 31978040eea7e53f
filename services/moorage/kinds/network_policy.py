"""`NetworkPolicy` (networking.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, TableColumn, of
from moorage.kinds.printing.kubernetes import selector_text

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError


class NetworkPolicyKind(StoredKind):
    """Which pods may speak with which. Those who run the work enforce it."""

    group = "networking.k8s.io"
    kind = "NetworkPolicy"
    plural = "networkpolicies"
    singular = "networkpolicy"
    short_names = ("netpol",)
    order = 116
    api_columns = (TableColumn("Pod-Selector", of(lambda found: selector_text(at(found, "spec", "podSelector")))), AGE)

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.networking import validate_network_policy

        return validate_network_policy(document) if is_new else []

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.networking import validate_network_policy_update

        return validate_network_policy_update(before, after)


KIND = NetworkPolicyKind()
