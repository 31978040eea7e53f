"""Strategic merge patches: lists are merged by the keys in the schema, and marks in the patch say what goes.

What a patch means is that of Kubernetes (`strategicpatch.StrategicMergePatch`). Where its result depends on the random
order of Go's maps, it does not here: of a list that is both merged and deleted from, the deletion is last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage.apiserver.machinery.patching import patch_rules as rules
from moorage.apiserver.machinery.patching.errors import PatchError, bad_patch, shown, type_name
from moorage.apiserver.machinery.patching.merge_patch import same
from moorage.apiserver.machinery.patching.patch_rules import DELETE_SCALARS, DIRECTIVE, ELEMENT_ORDER, RETAIN_KEYS
from moorage.apiserver.machinery.schema import Schema


@dataclass(frozen=True, slots=True)
class Manner:
    """How a patch is merged."""

    is_carried_out: bool
    """Whether the marks of the patch are carried out. Otherwise it is merged into another patch, with its marks."""


CARRIED_OUT = Manner(is_carried_out=True)
INTO_PATCH = Manner(is_carried_out=False)


def applied(document: Mapping[str, Any], patch: Any, schema: Schema | None) -> dict[str, Any]:
    """The document after a strategic merge patch. No argument is changed; the result may share parts with both.

    Nulls in new elements of lists stay, as in Kubernetes, where decoding the result drops them.

    Raises:
        PatchError: 400 if the patch is malformed or does not fit the schema, 422 if it has lists of lists.
    """
    if not isinstance(patch, Mapping):
        raise bad_patch(f"json: cannot unmarshal {_json_type(patch)} into Go value of type map[string]interface {{}}")
    return merged(document, patch, schema, CARRIED_OUT)


def merged(
    original: Mapping[str, Any], patch: Mapping[str, Any], schema: Schema | None, manner: Manner
) -> dict[str, Any]:
    """An object merged with a patch of it."""
    if DIRECTIVE in patch:
        return _directed(patch)
    result, rest = dict(original), dict(patch)
    _retain_keys(result, rest, manner)
    _order_elements(result, rest, schema, manner)
    deletions = [key for key in rest if key.startswith(DELETE_SCALARS)]
    for key, value in rest.items():
        if key not in deletions:
            _merge_field(result, key, value, schema, manner)
    for key in deletions:
        if manner.is_carried_out:
            _delete_scalars(result, rules.list_name(key, DELETE_SCALARS), rest[key], schema)
        else:
            result[key] = rest[key]
    return result


def _directed(patch: Mapping[str, Any]) -> dict[str, Any]:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Any, patch: Mapping[str, Any]) -> PatchError:
    text = directive if isinstance(directive, str) else f"%!s({type_name(directive)}={shown(directive)})"
    return bad_patch(f"unknown patch type: {text} in map: {shown(patch)}")


def _retain_keys(result: dict[str, Any], patch: dict[str, Any], manner: Manner) -> None:
    """Remove the fields that `$retainKeys` does not name."""
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if not manner.is_carried_out:
        if RETAIN_KEYS in result and not same(result[RETAIN_KEYS], retained):
            raise bad_patch(
                f"{shown(result[RETAIN_KEYS])} and {shown(retained)} are not deep equal: "
                "this may happen when calculating the 3-way diff patch"
            )
        result.setdefault(RETAIN_KEYS, retained)
        return
    if not isinstance(retained, list):
        raise bad_patch("invalid patch format of retainKeys")
    names = {name for name in retained if isinstance(name, str)}
    for key, value in patch.items():
        is_mark = key.startswith((DELETE_SCALARS, ELEMENT_ORDER))
        if value is not None and not is_mark and key not in names:
            raise bad_patch("invalid patch format of retainKeys")
    for key in [key for key in result if key not in names]:
        del result[key]


def _order_elements(result: dict[str, Any], patch: dict[str, Any], schema: Schema | None, manner: Manner) -> None:
    """Merge the lists for which the patch gives an order, and bring them into it. They leave the patch."""
    for key in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        order = patch.pop(key)
        if not manner.is_carried_out:
            if key in result and not same(result[key], order):
                raise bad_patch("invalid patch format of setElementOrder list")
            result.setdefault(key, order)
        order = _list(order)
        name = rules.list_name(key, ELEMENT_ORDER)
        had, gets = name in result, name in patch
        before, change = _list(result[name]) if had else [], _list(patch[name]) if gets else []
        rule = rules.rule_of_list(schema, name)
        _check_order(change, order, rule.merge_key)
        if not (had or gets):
            continue
        if not gets:
            elements = before
        elif not had:
            elements = _without_directives(change)
        else:
            elements = _merged_list(before, change, rule, manner)
        rules.check_elements(before, change)
        result[name] = _interleaved(elements, order, before, rule.merge_key)
        patch.pop(name, None)


def _check_order(change: Sequence[Any], order: Sequence[Any], merge_key: str) -> None:
    """Refuse an order that does not name the elements of the patch, or names them in another order."""
    if not order or not change:
        return
    if merge_key:
        for element in change:
            if not isinstance(element, Mapping):
                raise bad_patch(f"expected a map[string]interface {{}}, but received a {type_name(element)}")
    wanted = [one for one in change if not (isinstance(one, Mapping) and one.get(DIRECTIVE) == "delete")]
    found = named = 0
    while found < len(wanted) and named < len(order):
        if isinstance(wanted[found], Mapping) and DIRECTIVE in wanted[found]:
            found += 1
            continue
        found += rules.identity_of(wanted[found], merge_key) == rules.identity_of(order[named], merge_key)
        named += 1
    if found < len(wanted):
        raise bad_patch(
            f"The order in patch list:\n{shown(list(change))}\n doesn't match {ELEMENT_ORDER} list:\n"
            f"{shown(list(order))}\n"
        )


def _delete_scalars(result: dict[str, Any], name: str, gone: Any, schema: Schema | None) -> None:
    if gone is None:
        result.pop(name, None)
        return
    before = result.get(name)
    if not (isinstance(before, list) and isinstance(gone, list)):
        return
    rules.rule_of_list(schema, name)
    if before or gone:
        rules.check_elements(before, gone)
        deleted = rules.places(gone, "")
        result[name] = [element for element in before if rules.identity(element) not in deleted]


def _merge_field(result: dict[str, Any], key: str, value: Any, schema: Schema | None, manner: Manner) -> None:
    if value is None:
        result.pop(key, None)
        if not manner.is_carried_out:
            result[key] = None
        return
    before = result.get(key)
    if isinstance(before, Mapping) and isinstance(value, Mapping):
        rule = rules.rule_of_object(schema, key)
        is_replaced = rule.strategy == "replace"
        result[key] = dict(value) if is_replaced else merged(before, value, rule.schema, manner)
    elif isinstance(before, list) and isinstance(value, list):
        result[key] = _merged_list(before, value, rules.rule_of_list(schema, key), manner)
    elif isinstance(value, Mapping) and DIRECTIVE in value:
        result.pop(key, None)
    else:
        result[key] = _without_directives(_without_nulls(value) if manner.is_carried_out else value)


def _merged_list(original: list[Any], patch: list[Any], rule: rules.FieldRule, manner: Manner) -> list[Any]:
    if rule.strategy != "merge":
        return patch
    if not original and not patch:
        return original
    if not issubclass(rules.check_elements(original, patch), Mapping):
        scalars = list({rules.identity(element): element for element in (*original, *patch)}.values())
        return _interleaved(scalars, patch, original, "")
    if not rule.merge_key:
        raise bad_patch(f"cannot merge lists without merge key for {rules.kind_of(rule.schema)}")
    before, change = _after_directives(original, patch, rule.merge_key)
    elements = list(before)
    places = rules.places(elements, rule.merge_key)
    for element in change:
        place = places.setdefault(rules.identity_of(element, rule.merge_key), len(elements))
        if place == len(elements):
            elements.append(element)
        else:
            elements[place] = merged(elements[place], element, rule.schema, manner)
    return _interleaved(elements, change, before, rule.merge_key)


def _after_directives(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """What the marked elements of a patch leave of a list, and the elements that are not marked."""
    change: list[Any] = []
    deleted: set[Any] = set()
    is_replaced = False
    for element in patch:
        if DIRECTIVE not in element:
            change.append(element)
            continue
        directive = element[DIRECTIVE]
        if directive == "delete":
            if merge_key not in element:
                raise rules.no_merge_key(element, merge_key)
            deleted.add(rules.identity(element[merge_key]))
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise bad_patch("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(directive, element)
    if is_replaced:
        return change, []
    kept = [one for one in original if not (merge_key in one and rules.identity(one[merge_key]) in deleted)]
    return kept, change


def _interleaved(elements: Sequence[Any], named: Sequence[Any], original: Sequence[Any], merge_key: str) -> list[Any]:
    """The elements that `named` has, in its order, and the others in the order of the original list.

    One of the others comes before the first that it was before in the original list.
    """
    places, before = rules.places(named, merge_key), rules.places(original, merge_key)
    tokens = [rules.identity_of(element, merge_key) for element in elements]
    mine = [element for element, token in zip(elements, tokens, strict=True) if token in places]
    theirs = [element for element, token in zip(elements, tokens, strict=True) if token not in places]
    mine, theirs = rules.in_order(mine, named, merge_key), rules.in_order(theirs, original, merge_key)
    result: list[Any] = []
    left = right = 0
    while left < len(theirs) and right < len(mine):
        one = before.get(rules.identity_of(theirs[left], merge_key), -1)
        other = before.get(rules.identity_of(mine[right], merge_key), -1)
        if 0 <= one < other:
            result.append(theirs[left])
            left += 1
        else:
            result.append(mine[right])
            right += 1
    return [*result, *mine[right:], *theirs[left:]]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise bad_patch(f"expected a []interface {{}}, but received a {type_name(value)}")
    return value


def _without_directives(value: Any) -> Any:
    """A value of a patch that is new: what is marked in it is left out."""
    if isinstance(value, Mapping):
        kept = {key: inner for key, inner in value.items() if not (isinstance(inner, Mapping) and DIRECTIVE in inner)}
        return {key: _without_directives(inner) for key, inner in kept.items()}
    if isinstance(value, list):
        return [
            _without_directives(inner) for inner in value if not (isinstance(inner, Mapping) and DIRECTIVE in inner)
        ]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _json_type(value: Any) -> str:
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "null")
