"""The priority of new pods, and that there is one default of it."""

from __future__ import annotations

from typing import Any

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.built_in import PRIORITY_CLASS
from moorage.apiserver.kinds.status.priorities import PriorityIndex
from moorage.apiserver.machinery.api_errors import forbidden
from moorage.apiserver.rules import priorities
from moorage.apiserver.rules.priorities import PriorityError
from moorage.apiserver.storage.tables import Tables
from moorage_schemas.resources.workload_kinds import POD

Document = dict[str, Any]


def with_priority(document: Document, kind: ServedKind, tables: Tables) -> Document:
    """A new pod with its priority. Objects of other kinds stay as they are.

    Args:
        document: the object as it was sent.
        kind: of the object.
        tables: the latest records.

    Raises:
        StatusError: 403 if a pod may not have the priority that it asks for.
    """
    if kind.kind != POD:
        return document
    try:
        return priorities.prioritized(document, tables.index(PriorityIndex).classes)
    except PriorityError as error:
        raise forbidden(kind.group, kind.plural, _name(document), str(error)) from None


def check_default_class(document: Document, kind: ServedKind, tables: Tables) -> None:
    """Check that a priority class is not a second default. Objects of other kinds are not looked at.

    Args:
        document: the object as it is wanted.
        kind: of the object.
        tables: the latest records.

    Raises:
        StatusError: 403 if there is another default.
    """
    if kind.kind != PRIORITY_CLASS:
        return
    try:
        priorities.check_only_default(document, tables.index(PriorityIndex).classes)
    except PriorityError as error:
        raise forbidden(kind.group, kind.plural, _name(document), str(error)) from None


def _name(document: Document) -> str:
    return str(document["metadata"].get("name", ""))
