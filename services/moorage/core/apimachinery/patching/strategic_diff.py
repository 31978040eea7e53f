"""Strategic merge patches made from documents, as clients make them before they send one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moorage.core.apimachinery.patching import patch_rules as rules
from moorage.core.apimachinery.patching import strategic_merge
from moorage.core.apimachinery.patching.errors import bad_patch, shown
from moorage.core.apimachinery.patching.merge_patch import same
from moorage.core.apimachinery.patching.patch_rules import DELETE_SCALARS, DIRECTIVE, ELEMENT_ORDER, RETAIN_KEYS
from moorage.core.apimachinery.schema import Schema


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What of the difference goes into the patch."""

    changes: bool = True
    """What is changed or added."""

    deletions: bool = True


def two_way(original: Mapping[str, Any], modified: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """The strategic merge patch that makes the second document of the first.

    Raises:
        PatchError: 400 if a document does not fit the schema.
    """
    return _objects(original, modified, schema, _Wanted(), retains_keys=False)


def three_way(
    original: Mapping[str, Any], modified: Mapping[str, Any], current: Mapping[str, Any], schema: Schema | None
) -> dict[str, Any]:
    """The strategic merge patch of a client-side apply, as `kubectl apply` makes it.

    It changes what differs from `modified` in the live object, and removes what was applied and no longer is. What
    others have added stays.

    Args:
        original: what was applied last. Empty if nothing was.
        modified: what is applied now.
        current: the live object.
        schema: their schema.

    Raises:
        PatchError: 400 if a document does not fit the schema.
    """
    changes = _objects(current, modified, schema, _Wanted(deletions=False), retains_keys=False)
    deletions = _objects(original, modified, schema, _Wanted(changes=False), retains_keys=False)
    return strategic_merge.merged(deletions, changes, schema, strategic_merge.INTO_PATCH)


def _objects(
    original: Mapping[str, Any],
    modified: Mapping[str, Any],
    schema: Schema | None,
    wanted: _Wanted,
    *,
    retains_keys: bool,
) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for key, value in modified.items():
        if key not in original:
            if wanted.changes:
                patch[key] = value
            continue
        before = original[key]
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            patch.update(_of_objects(key, before, value, schema, wanted))
        elif isinstance(before, list) and isinstance(value, list):
            patch.update(_of_lists(key, before, value, schema, wanted))
        elif wanted.changes and not same(before, value):
            patch[key] = value
    gone = [key for key in original if key not in modified]
    if wanted.deletions:
        patch.update(dict.fromkeys(gone))
    if retains_keys:
        retained = sorted(key for key, value in modified.items() if value is not None)
        if retained and (patch or any(original[key] is not None for key in gone)):
            patch[RETAIN_KEYS] = retained
    return patch


def _of_objects(key: str, before: Any, value: Any, schema: Schema | None, wanted: _Wanted) -> dict[str, Any]:
    """The part of a patch that changes a field with an object."""
    if same(before, value) and (schema is None or schema.at(key) is None):
        return {}
    rule = rules.rule_of_object(schema, key)
    if rule.strategy == "replace":
        return {key: value} if wanted.changes else {}
    inner = _objects(before, value, rule.schema, wanted, retains_keys=rule.retains_keys)
    return {key: inner} if inner else {}


def _of_lists(key: str, before: list[Any], value: list[Any], schema: Schema | None, wanted: _Wanted) -> dict[str, Any]:
    """The part of a patch that changes a field with a list."""
    if same(before, value) and (schema is None or schema.at(key) is None):
        return {}
    rule = rules.rule_of_list(schema, key)
    if rule.strategy != "merge":
        return {key: value} if wanted.changes and not same(before, value) else {}
    added, deleted, order = _lists(before, value, rule, wanted)
    parts = ((key, added), (f"{DELETE_SCALARS}/{key}", deleted), (f"{ELEMENT_ORDER}/{key}", order))
    return {name: found for name, found in parts if found}


def _lists(
    original: list[Any], modified: list[Any], rule: rules.FieldRule, wanted: _Wanted
) -> tuple[list[Any], list[Any], list[Any]]:
    """What is added to a merged list, the scalars that are removed from it, and its order if that must be said."""
    if not original:
        return (modified if wanted.changes else []), [], []
    if issubclass(rules.check_elements(original, modified), Mapping):
        if not rule.merge_key:
            raise bad_patch(f"cannot merge lists without merge key for {rules.kind_of(rule.schema)}")
        changes, deletions = _keyed(original, modified, rule, wanted)
        changes = rules.in_order(changes, modified, rule.merge_key)
        keys = [[element[rule.merge_key] for element in one] for one in (original, modified)]
        is_reordered = not same(*keys)
        patch = changes + deletions
        if (wanted.changes and (patch or is_reordered)) or (wanted.deletions and patch):
            return patch, [], [{rule.merge_key: element[rule.merge_key]} for element in modified]
        return patch, [], []
    before, after = sorted(original, key=shown), sorted(modified, key=shown)
    kept, known = set(map(shown, after)), set(map(shown, before))
    deleted = [element for element in before if shown(element) not in kept] if wanted.deletions else []
    deleted = list({rules.identity(element): element for element in deleted}.values())
    added = [element for element in after if shown(element) not in known]
    added = rules.in_order(added, modified, "") if wanted.changes else []
    # Upstream, too, gives the order wherever it is not the sorted one.
    is_ordered = bool(deleted) or (wanted.changes and not same(before, modified))
    return added, deleted, modified if is_ordered else []


def _keyed(
    original: list[Any], modified: list[Any], rule: rules.FieldRule, wanted: _Wanted
) -> tuple[list[Any], list[Any]]:
    """The changed and new elements of a list of objects, and the marks that delete others."""
    name = rule.merge_key
    for element in (*original, *modified):
        rules.key_of(element, name)
    before, after = _by_key(original, name), _by_key(modified, name)
    changes: list[Any] = []
    deletions: list[Any] = []
    left = right = 0
    while left < len(before) or right < len(after):
        old = shown(before[left][name]) if left < len(before) else None
        new = shown(after[right][name]) if right < len(after) else None
        if old is not None and old == new:
            inner = _objects(before[left], after[right], rule.schema, wanted, retains_keys=rule.retains_keys)
            if inner:
                changes.append({**inner, name: after[right][name]})
            left, right = left + 1, right + 1
        elif old is None or (new is not None and old > new):
            if wanted.changes:
                changes.append(after[right])
            right += 1
        else:
            if wanted.deletions:
                deletions.append({name: before[left][name], DIRECTIVE: "delete"})
            left += 1
    return changes, deletions


def _by_key(elements: list[Any], name: str) -> list[Any]:
    """The elements sorted by the text of their keys. Of those with the same key, upstream takes the last first."""
    numbered = sorted(enumerate(elements), key=lambda pair: (shown(pair[1][name]), -pair[0]))
    return [element for _, element in numbered]
