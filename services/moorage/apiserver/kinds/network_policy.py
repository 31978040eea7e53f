"""`NetworkPolicy` (networking.k8s.io/v1)."""

from __future__ import annotations

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, of
from moorage.apiserver.kinds.printing.kubernetes import selector_text
from moorage.decide.kubernetes.unstructured import at


class NetworkPolicyKind(StoredKind):
    """Which pods may speak with which. Those who run the work enforce it."""

    group = "networking.k8s.io"
    kind = "NetworkPolicy"
    plural = "networkpolicies"
    singular = "networkpolicy"
    short_names = ("netpol",)
    order = 116
    api_columns = (TableColumn("Pod-Selector", of(lambda found: selector_text(at(found, "spec", "podSelector")))), AGE)


KIND = NetworkPolicyKind()
