"""`ConfigMap` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, count, of
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.decide.kubernetes.field_errors import FieldError


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

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.config_data import validate_config_map

        return validate_config_map(document)

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.validation.config_data import validate_immutable

        return validate_immutable(before, after, "data", "binaryData")


KIND = ConfigMapKind()
