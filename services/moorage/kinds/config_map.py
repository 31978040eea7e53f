"""`ConfigMap` (v1)."""

from __future__ import annotations

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.kind import Untyped
from moorage.kinds.printing.columns import AGE, Object, TableColumn, count, of


def _keys(found: Object) -> str:
    return str(len(at(found, "data") or ()) + len(at(found, "binaryData") or ()))


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
    api_columns = (TableColumn("Data", of(_keys), holds="integer"), AGE)


KIND = ConfigMapKind()
