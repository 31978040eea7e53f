"""`PlacementDecision` (cluster.open-cluster-management.io/v1beta1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class PlacementDecisionKind(View):
    """A page of the managed clusters that a placement has selected, as OCM's API shows it."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta1", "v1alpha1")
    kind = "PlacementDecision"
    plural = "placementdecisions"
    singular = "placementdecision"
    cli_names = ("pd",)
    namespaced = True
    order = 2100
    repeatable = True


KIND = PlacementDecisionKind()
