"""`ConfigMap` (v1)."""

from __future__ import annotations

from moorage.kinds.kind import Untyped
from moorage.kinds.printing.columns import AGE, TableColumn, count


class ConfigMapKind(Untyped):
    """A config map. It is stored, and propagation policies can claim it."""

    kind = "ConfigMap"
    plural = "configmaps"
    singular = "configmap"
    short_names = ("cm",)
    namespaced = True
    order = 100
    has_generation = False
    columns = (TableColumn("DATA", count("data")), AGE)


KIND = ConfigMapKind()
