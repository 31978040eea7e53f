"""Client-side apply: what a manifest changes in an object, given what was applied before.

The annotation with the applied object is kubectl's, so that either may apply what the other has applied before. Earlier
versions of Moorage had an annotation of their own, which is read as well and removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from moorage.cli.api import targets
from moorage.cli.api.client import JsonObject
from moorage.cli.api.manifests import Manifest
from moorage.cli.errors import CliError
from moorage.kinds.kind import ServedKind

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation with the applied object, so that a field that a later file leaves out is removed."""

EARLIER: Final = "moorage.io/last-applied-configuration"
"""The annotation of earlier versions of Moorage."""

MANAGER: Final = "kubectl-client-side-apply"
"""The manager of the fields that are applied in this way. Server-side apply by kubectl takes them over by this name."""

_TARGETS: Final = frozenset(kind.kind for kind in targets.KINDS)

_SERVERS: Final = frozenset({"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"})
"""The fields of metadata that the server sets. A manifest that was read from a server may still have them."""

_HTML: Final = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"}
"""The signs that kubectl escapes in JSON."""


class WantedObject(NamedTuple):
    """What a manifest asks for."""

    plain: JsonObject
    """The object with its namespace, without what only the server sets."""

    annotated: JsonObject
    """The object to create: with the annotation."""


def wanted(item: Manifest, kind: ServedKind, namespace: str) -> WantedObject:
    """Return what a manifest asks for.

    Args:
        item: the manifest.
        kind: its kind.
        namespace: the namespace of objects that name none.
    """
    document = dict(item.document)
    metadata = {name: value for name, value in (document.get("metadata") or {}).items() if name not in _SERVERS}
    if kind.namespaced:
        metadata["namespace"] = namespace
    document["metadata"] = metadata
    if isinstance(document.get("status"), dict):
        # A node's capacity is declared. Its conditions are reported, never applied.
        document["status"] = {name: value for name, value in document["status"].items() if name != "conditions"}
    # A file that was made with `get` contains the last annotation. If it were kept, it would grow with each round.
    there = metadata.get("annotations") or {}
    annotations = {key: value for key, value in there.items() if key not in {ANNOTATION, EARLIER}}
    if annotations or "annotations" in metadata:
        metadata["annotations"] = annotations
    noted = {**document, "metadata": {**metadata, "annotations": annotations}}
    annotated = {ANNOTATION: _encoded(noted), **annotations}
    return WantedObject(document, {**document, "metadata": {**metadata, "annotations": annotated}})


def as_written(item: Manifest, kind: ServedKind, namespace: str) -> JsonObject:
    """Return the object of a manifest with its namespace and all its annotations, to create or replace one.

    Args:
        item: the manifest.
        kind: its kind.
        namespace: the namespace of objects that name none.
    """
    document = wanted(item, kind, namespace).plain
    annotations = (item.document.get("metadata") or {}).get("annotations")
    return {**document, "metadata": {**document["metadata"], **({"annotations": annotations} if annotations else {})}}


def to_create(item: Manifest, kind: ServedKind, namespace: str, *, noted: bool) -> JsonObject:
    """Return the object to create for a manifest: as it is written, or with the annotation if it is to be noted."""
    return wanted(item, kind, namespace).annotated if noted else as_written(item, kind, namespace)


def change(before: Mapping[str, Any], new: WantedObject, kind: ServedKind) -> JsonObject:
    """Return the JSON merge patch (RFC 7386) that applies a manifest to an object. Empty if nothing differs.

    Fields that the server or others have set stay. Fields that were applied last time and are left out now are removed.
    Lists are merged as the kind's structure says. The taints of a target are merged one by one: one that was applied
    and is left out is removed, all others stay.

    Raises:
        CliError: a document does not fit the kind's structure.
    """
    from moorage.core.apimachinery.patching.errors import PatchError  # noqa: PLC0415 - few commands need it

    last = last_applied(before)
    document = _aligned(new.annotated, before, last, longer=kind.kind == "Pod")
    if kind.kind in _TARGETS:
        document, last = _with_taints(document, before, last)
    try:
        return _change(before, document, last, kind)
    except PatchError as error:
        raise CliError(error.message) from None


def _change(before: Mapping[str, Any], document: JsonObject, last: JsonObject, kind: ServedKind) -> JsonObject:
    from moorage.core.apimachinery.patching import (  # noqa: PLC0415 - few commands need them
        merge_patch,
        strategic_diff,
        strategic_merge,
    )
    from moorage.kinds.openapi.registry import Origin, origin_of, schema_of  # noqa: PLC0415 - as above

    if origin_of(kind.group, kind.kind) is Origin.BUILT_IN:
        schema = schema_of(kind.group, kind.version, kind.kind)
        patch = strategic_diff.three_way(last, document, before, schema)
        after = strategic_merge.applied(before, patch, schema)
    else:
        after = merge_patch.applied(before, merge_patch.three_way(last, document, before))
    annotations = {key: value for key, value in after["metadata"]["annotations"].items() if key != EARLIER}
    after = {**after, "metadata": {**after["metadata"], "annotations": annotations}}
    return merge_patch.two_way(before, after)


def changed(before: Mapping[str, Any], patch: Mapping[str, Any]) -> JsonObject:
    """Return an object as a JSON merge patch leaves it."""
    from moorage.core.apimachinery.patching import merge_patch  # noqa: PLC0415 - few commands need it

    after: JsonObject = merge_patch.applied(before, patch)
    return after


def last_applied(found: Mapping[str, Any]) -> JsonObject:
    """Return what was applied last. Empty if nothing was, or it cannot be read.

    If both annotations are there, kubectl's counts, and what the earlier one adds counts as applied as well.
    """
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    result: JsonObject = {}
    for name in (EARLIER, ANNOTATION):
        try:
            last = json.loads(annotations.get(name) or "{}")
        except ValueError:
            continue
        if isinstance(last, dict):
            result = _over(result, last)
    return result


def is_applied(found: Mapping[str, Any]) -> bool:
    """Return whether an object has one of the annotations."""
    return bool(((found.get("metadata") or {}).get("annotations") or {}).keys() & {ANNOTATION, EARLIER})


def _encoded(document: Any) -> str:
    """Return an object in the form in which kubectl notes it."""
    text = json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    for sign, escaped in _HTML.items():
        text = text.replace(sign, escaped)
    return f"{text}\n"


def _over(base: JsonObject, top: Mapping[str, Any]) -> JsonObject:
    """Return one object laid over another."""
    both = dict(base)
    for name, value in top.items():
        had = both.get(name)
        both[name] = _over(had, value) if isinstance(had, dict) and isinstance(value, dict) else value
    return both


def _aligned(new: Any, had: Any, was: Any, *, longer: bool) -> Any:
    """Return what is wanted, with the server's form of each list that says the same.

    Args:
        new: what is wanted.
        had: what the server has.
        was: what was applied last.
        longer: whether the server's lists may have more at the end. Those of a pod may, because admission adds to them
            and nothing can be removed from them.
    """
    if isinstance(new, dict) and isinstance(had, dict):
        last = was if isinstance(was, dict) else {}
        return {name: _aligned(value, had.get(name), last.get(name), longer=longer) for name, value in new.items()}
    if isinstance(new, list) and isinstance(had, list) and was in (None, new) and _says(had, new, longer=longer):
        return had
    return new


def _says(had: Any, value: Any, *, longer: bool) -> bool:
    """Return whether the server's value is the same, apart from defaults that it has filled in in objects of a list."""
    if isinstance(value, dict):
        return isinstance(had, dict) and all(_says(had.get(name), part, longer=longer) for name, part in value.items())
    if isinstance(value, list) and isinstance(had, list):
        whole = len(had) >= len(value) if longer else len(had) == len(value)
        return whole and all(_says(h, v, longer=longer) for h, v in zip(had, value, strict=False))
    return bool(had == value) or (had is None and value in ({}, [], "", None))


def _with_taints(new: JsonObject, had: Mapping[str, Any], was: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return what is wanted and what was applied, where the wanted taints include those that stay.

    Taints are merged by key and effect: new ones are added, and those of last time that are left out are removed.
    """
    spec, there, last = new.get("spec") or {}, had.get("spec") or {}, was.get("spec") or {}
    if "taints" not in spec and "taints" not in last:
        return new, was

    def identity(taint: JsonObject) -> tuple[Any, Any]:
        return (taint.get("key"), taint.get("effect"))

    asked = {identity(taint): taint for taint in spec.get("taints") or []}
    dropped = {identity(taint) for taint in last.get("taints") or []} - set(asked)
    merged = []
    for taint in there.get("taints") or []:
        if identity(taint) in dropped:
            continue
        ask = asked.pop(identity(taint), None)
        merged.append(taint if ask is None or (ask.get("value") or "") == (taint.get("value") or "") else ask)
    merged += asked.values()
    if not merged and "taints" not in there:
        return new, was
    return {**new, "spec": {**spec, "taints": merged}}, {**was, "spec": {**last, "taints": merged}}
