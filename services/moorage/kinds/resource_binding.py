"""`ResourceBinding` (work.karmada.io/v1alpha2)."""

from __future__ import annotations

from moorage.kinds.kind import View


class ResourceBindingKind(View):
    """Where the resource that a propagation policy has claimed belongs, as Karmada's API shows it."""

    group = "work.karmada.io"
    versions = ("v1alpha2",)
    kind = "ResourceBinding"
    plural = "resourcebindings"
    singular = "resourcebinding"
    short_names = ("rb",)
    namespaced = True
    order = 2090


KIND = ResourceBindingKind()
