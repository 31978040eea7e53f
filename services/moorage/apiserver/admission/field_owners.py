"""Owners of fields: `metadata.managedFields` after every write, and server-side apply."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from moorage.apiserver.admission import taint_edits
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.registry import Origin
from moorage.apiserver.machinery.patching.server_side_apply import FieldManagement, reset_fields
from moorage.apiserver.rules.field_defaults import with_decoded_defaults

Document = dict[str, Any]


def recorded(
    kind: ServedKind,
    shown: Mapping[str, Any] | None,
    wanted: Mapping[str, Any],
    manager: str,
    now: datetime,
    *,
    subresource: str = "",
) -> Document:
    """Return an object with `managedFields`, after a write that is no apply."""
    return management(kind, subresource).updated(shown, wanted, manager, now)


@cache
def management(kind: ServedKind, subresource: str = "") -> FieldManagement:
    """Return the management of the fields of a kind."""
    is_custom = registry.origin_of(kind.group, kind.kind) in {Origin.CUSTOM, Origin.OWN}
    schema = registry.schema_of(kind.group, kind.version, kind.kind)
    # No manager sets a status through the object, whether or not the subresource is served here.
    reset = reset_fields(kind.group, kind.kind, subresource, has_status="status" in schema.fields, is_custom=is_custom)
    spec = schema.fields.get("spec")
    has_taints = spec is not None and "taints" in spec.schema.fields
    return FieldManagement(
        schema,
        kind.api_version,
        kind.kind,
        subresource=subresource,
        reset=reset,
        is_custom=is_custom,
        as_declared=taint_edits.as_declared if has_taints else None,
        as_shown=taint_edits.as_shown if has_taints else None,
        with_defaults=None if is_custom else with_decoded_defaults,
    )
