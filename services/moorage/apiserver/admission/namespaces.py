"""Whether an object may be created in a namespace."""

from __future__ import annotations

from typing import Final

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.namespaces import NAMESPACE, exists
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import Cause
from moorage.apiserver.storage.tables import Tables
from moorage_schemas.resource import resource_key

TERMINATING: Final = "NamespaceTerminating"
"""The reason of the cause when a namespace is being deleted."""


def check_namespace(kind: ServedKind, namespace: str, name: str, tables: Tables) -> None:
    """Check that an object's namespace exists and is not being deleted.

    Args:
        kind: of the object.
        namespace: of the object. Empty for a kind without namespaces.
        name: of the object.
        tables: the latest records.

    Raises:
        StatusError: 404 if there is no such namespace, 403 if it is being deleted.
    """
    if not kind.namespaced or not namespace:
        return
    declared = tables.resources.get(resource_key(NAMESPACE, "", namespace))
    if declared is None:
        if not exists(namespace, tables):
            raise api_errors.not_found("", "namespaces", namespace)
    elif declared.object["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause(TERMINATING, f"namespace {namespace} is being terminated", "metadata.namespace")
        raise api_errors.forbidden(kind.group, kind.plural, name, why, [cause])
