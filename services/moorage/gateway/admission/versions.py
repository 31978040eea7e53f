"""Kinds that have several API versions: one form is stored, each version is read and written as itself.

What is stored names the newest version. The versions differ in one word only: the way in which clusters name their set
was called `LegacyClusterSetLabel` before v1beta2. It is stored as it was written and shown as the version knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.gateway.kinds import ServedKind
from moorage_schemas.resources.managed import EXCLUSIVE, LEGACY

Document = Mapping[str, Any]

_SET = "ManagedClusterSet"
_KNOWS_NO_LEGACY = "v1beta2"


def shown(document: Document, kind: ServedKind) -> Document:
    """An object as the API shows it, in the version that was asked for."""
    if document.get("apiVersion") == kind.api_version:
        return _today(document) if kind.kind == _SET and kind.version == _KNOWS_NO_LEGACY else document
    return {**document, "apiVersion": kind.api_version}


def stored(document: dict[str, Any], kind: ServedKind) -> dict[str, Any]:
    """An object that was written in any version, as it is stored."""
    if kind.declared is None:
        return document
    return {**document, "apiVersion": kind.declared.api_versions[0]}


def _today(document: Document) -> Document:
    """A set in the words of the newest version."""
    spec = document.get("spec") or {}
    selector = spec.get("clusterSelector") or {}
    if selector.get("selectorType") != LEGACY:
        return document
    return {**document, "spec": {**spec, "clusterSelector": {**selector, "selectorType": EXCLUSIVE}}}
