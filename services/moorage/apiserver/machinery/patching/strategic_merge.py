"""Strategic merge patches: lists are merged by the keys in the schema, and marks in the patch remove parts.

What a patch means is that of Kubernetes (`strategicpatch.StrategicMergePatch`). Where its result depends on the random
order of Go's maps, it does not here: of a list that is both merged and deleted from, the deletion is last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.apiserver.machinery.patching.errors import PatchError, bad_patch, quoted, shown, type_name, unprocessable
from moorage.apiserver.machinery.patching.merge_patch import without_nulls
from moorage.apiserver.machinery.schema import Form, Schema


def applied(document: Mapping[str, Any], patch: Any, schema: Schema | None) -> dict[str, Any]:
    """Return the document after a strategic merge patch. No argument is changed; the result may share parts with both.

    Nulls in new elements of lists stay, as in Kubernetes, where decoding the result drops them.

    Raises:
        PatchError: 400 if the patch is malformed or does not fit the schema, 422 if it has lists of lists.
    """
    if not isinstance(patch, Mapping):
        raise bad_patch(f"json: cannot unmarshal {_json_type(patch)} into Go value of type map[string]interface {{}}")
    return merged(document, patch, schema)


def merged(original: Mapping[str, Any], patch: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """Return an object merged with a patch of it."""
    if DIRECTIVE in patch:
        return _directed(patch)
    result, rest = dict(original), dict(patch)
    _retain_keys(result, rest)
    _order_elements(result, rest, schema)
    deletions = [key for key in rest if key.startswith(DELETE_SCALARS)]
    for key, value in rest.items():
        if key not in deletions:
            _merge_field(result, key, value, schema)
    for key in deletions:
        _delete_scalars(result, list_name(key, DELETE_SCALARS), rest[key], schema)
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


def _retain_keys(result: dict[str, Any], patch: dict[str, Any]) -> None:
    """Remove the fields that `$retainKeys` does not name."""
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if not isinstance(retained, list):
        raise bad_patch("invalid patch format of retainKeys")
    names = {name for name in retained if isinstance(name, str)}
    for key, value in patch.items():
        is_mark = key.startswith((DELETE_SCALARS, ELEMENT_ORDER))
        if value is not None and not is_mark and key not in names:
            raise bad_patch("invalid patch format of retainKeys")
    for key in [key for key in result if key not in names]:
        del result[key]


def _order_elements(result: dict[str, Any], patch: dict[str, Any], schema: Schema | None) -> None:
    """Merge the lists for which the patch gives an order, and bring them into it. They leave the patch."""
    for key in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        order = patch.pop(key)
        order = _list(order)
        name = list_name(key, ELEMENT_ORDER)
        had, gets = name in result, name in patch
        before, change = _list(result[name]) if had else [], _list(patch[name]) if gets else []
        rule = rule_of_list(schema, name)
        _check_order(change, order, rule.merge_key)
        if not (had or gets):
            continue
        if not gets:
            elements = before
        elif not had:
            elements = _without_directives(change)
        else:
            elements = _merged_list(before, change, rule)
        check_elements(before, change)
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
        found += identity_of(wanted[found], merge_key) == identity_of(order[named], merge_key)
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
    rule_of_list(schema, name)
    if before or gone:
        check_elements(before, gone)
        deleted = places_of(gone, "")
        result[name] = [element for element in before if identity(element) not in deleted]


def _merge_field(result: dict[str, Any], key: str, value: Any, schema: Schema | None) -> None:
    if value is None:
        result.pop(key, None)
        return
    before = result.get(key)
    if isinstance(before, Mapping) and isinstance(value, Mapping):
        rule = rule_of_object(schema, key)
        is_replaced = rule.strategy == "replace"
        result[key] = dict(value) if is_replaced else merged(before, value, rule.schema)
    elif isinstance(before, list) and isinstance(value, list):
        result[key] = _merged_list(before, value, rule_of_list(schema, key))
    elif isinstance(value, Mapping) and DIRECTIVE in value:
        result.pop(key, None)
    else:
        result[key] = _without_directives(without_nulls(value))


def _merged_list(original: list[Any], patch: list[Any], rule: FieldRule) -> list[Any]:
    if rule.strategy != "merge":
        return patch
    if not original and not patch:
        return original
    if not issubclass(check_elements(original, patch), Mapping):
        scalars = list({identity(element): element for element in (*original, *patch)}.values())
        return _interleaved(scalars, patch, original, "")
    if not rule.merge_key:
        raise bad_patch(f"cannot merge lists without merge key for {kind_of(rule.schema)}")
    before, change = _after_directives(original, patch, rule.merge_key)
    elements = list(before)
    places = places_of(elements, rule.merge_key)
    for element in change:
        place = places.setdefault(identity_of(element, rule.merge_key), len(elements))
        if place == len(elements):
            elements.append(element)
        else:
            elements[place] = merged(elements[place], element, rule.schema)
    return _interleaved(elements, change, before, rule.merge_key)


def _after_directives(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Return the elements of a list that a patch's marks leave, and the patch's unmarked elements."""
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
                raise no_merge_key(element, merge_key)
            deleted.add(identity(element[merge_key]))
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise bad_patch("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(directive, element)
    if is_replaced:
        return change, []
    kept = [one for one in original if not (merge_key in one and identity(one[merge_key]) in deleted)]
    return kept, change


def _interleaved(elements: Sequence[Any], named: Sequence[Any], original: Sequence[Any], merge_key: str) -> list[Any]:
    """Return the elements that `named` has, in its order, and the others in the order of the original list.

    One of the others comes before the first that it was before in the original list.
    """
    places, before = places_of(named, merge_key), places_of(original, merge_key)
    tokens = [identity_of(element, merge_key) for element in elements]
    mine = [element for element, token in zip(elements, tokens, strict=True) if token in places]
    theirs = [element for element, token in zip(elements, tokens, strict=True) if token not in places]
    mine, theirs = in_order(mine, named, merge_key), in_order(theirs, original, merge_key)
    result: list[Any] = []
    left = right = 0
    while left < len(theirs) and right < len(mine):
        one = before.get(identity_of(theirs[left], merge_key), -1)
        other = before.get(identity_of(mine[right], merge_key), -1)
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
    """Return a value of a patch that is new: what is marked in it is left out."""
    if isinstance(value, Mapping):
        kept = {key: inner for key, inner in value.items() if not (isinstance(inner, Mapping) and DIRECTIVE in inner)}
        return {key: _without_directives(inner) for key, inner in kept.items()}
    if isinstance(value, list):
        return [
            _without_directives(inner) for inner in value if not (isinstance(inner, Mapping) and DIRECTIVE in inner)
        ]
    return value


def _json_type(value: Any) -> str:
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "null")


DIRECTIVE: Final = "$patch"
"""In an object of a patch: `replace`, `delete` or `merge` it."""

RETAIN_KEYS: Final = "$retainKeys"
"""In an object of a patch: the fields that stay; all others go."""

DELETE_SCALARS: Final = "$deleteFromPrimitiveList"
"""Before the name of a list in a patch: scalars that are removed from it."""

ELEMENT_ORDER: Final = "$setElementOrder"
"""Before the name of a list in a patch: the order of its elements."""

_KINDS: Final = {Form.STRUCT: "struct", Form.MAP: "map", Form.LIST: "slice", Form.ANY: "interface"}


@dataclass(frozen=True, slots=True)
class FieldRule:
    """How a field is merged."""

    schema: Schema | None
    """The schema of the object, or of the elements of the list. None if there is none."""

    strategy: str
    """`merge`, `replace`, or empty."""

    merge_key: str
    retains_keys: bool


def rule_of_object(schema: Schema | None, name: str) -> FieldRule:
    """Return how a field with an object is merged. Raises PatchError: 400 if the schema does not have the field."""
    found = _field(schema, name)
    strategies = found.patch_strategies
    others = sorted(strategies - {"retainKeys"})
    return FieldRule(found, others[0] if others else "", found.merge_key, "retainKeys" in strategies)


def rule_of_list(schema: Schema | None, name: str) -> FieldRule:
    """Return how a field with a list is merged. Its schema is that of the elements.

    Raises:
        PatchError: 400 if the schema does not have the field, or it is no list.
    """
    rule = rule_of_object(schema, name)
    if rule.schema is None or rule.schema.form is not Form.LIST:
        raise bad_patch(f"expected slice or array type, but got: {_kind(schema)}")
    return FieldRule(rule.schema.items, rule.strategy, rule.merge_key, rule.retains_keys)


def list_name(key: str, mark: str) -> str:
    """Return the name of the list that a marked key of a patch belongs to.

    Raises:
        PatchError: 400 if the key has no name.
    """
    found, slash, name = key.partition("/")
    if not slash or found != mark:
        raise bad_patch(f"invalid patch format of {'primitive' if mark == DELETE_SCALARS else 'setElementOrder'} list")
    return name


def kind_of(schema: Schema | None) -> str:
    """Return the name of a schema's form in Kubernetes' messages."""
    return _kind(schema)


def check_elements(*lists: Sequence[Any]) -> type:
    """Return the type that all elements have: `dict` for objects.

    Raises:
        PatchError: 422 if there are lists among them; 400 if they are of different types, or there are none.
    """
    found: type | None = None
    for element in (element for one in lists for element in one):
        if isinstance(element, list):
            raise unprocessable()
        if found is not None and type(element) is not found:
            raise bad_patch(f"list element types are not identical: [{' '.join(shown(list(one)) for one in lists)}]")
        found = type(element)
    if found is None:
        raise bad_patch("no elements in any of the given slices")
    return found


def key_of(element: Any, merge_key: str) -> Any:
    """Return the value that identifies an element. Raises PatchError: 400 if it is no object, or has no such field."""
    if not isinstance(element, Mapping):
        raise bad_patch(f"expected a map[string]interface {{}}, but received a {type_name(element)}")
    if merge_key not in element:
        raise no_merge_key(element, merge_key)
    return element[merge_key]


def no_merge_key(element: Mapping[str, Any], merge_key: str) -> Exception:
    """400: an element of a list lacks the field that identifies it."""
    return bad_patch(f"map: {shown(element)} does not contain declared merge key: {merge_key}")


def identity(value: Any) -> Any:
    """Return a key that equal JSON values share, and no others. Unlike in Python, true is not 1."""
    if isinstance(value, bool):
        return (value,)
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else value


def places_of(elements: Sequence[Any], merge_key: str) -> dict[Any, int]:
    """Return the index of the first element with each value of the merge key, or of each scalar if there is no key.

    Raises:
        PatchError: 400 if an element is no object although there is a key.
    """
    found: dict[Any, int] = {}
    for number, element in enumerate(elements):
        if not merge_key:
            found.setdefault(identity(element), number)
        elif not isinstance(element, Mapping):
            raise bad_patch(f"value for key {number} is not a map")
        elif merge_key in element:
            found.setdefault(identity(element[merge_key]), number)
    return found


def identity_of(element: Any, merge_key: str) -> Any:
    """Return the identity of an element of a merged list.

    Raises:
        PatchError: 400 if it is no object, or has no such field.
    """
    return identity(key_of(element, merge_key) if merge_key else element)


def in_order(elements: Sequence[Any], order: Sequence[Any], merge_key: str) -> list[Any]:
    """Return the elements sorted as `order` has them. Those that are marked for deletion come last."""
    for element in (*elements, *order) if merge_key else ():
        key_of(element, merge_key)
    place = places_of(order, merge_key)
    kept = [one for one in elements if not (merge_key and one.get(DIRECTIVE) == "delete")]
    kept.sort(key=lambda one: place.get(identity_of(one, merge_key), -1))
    return kept + [one for one in elements if merge_key and one.get(DIRECTIVE) == "delete"]


def _field(schema: Schema | None, name: str) -> Schema:
    if schema is None or schema.form is not Form.STRUCT:
        raise bad_patch(f"merging an object in json but data type is not struct, instead is: {_kind(schema)}")
    found = schema.at(name)
    if found is None:
        struct = schema.name.rpartition(".")[2]
        raise bad_patch(f"unable to find api field in struct {struct} for the json field {quoted(name)}")
    return found


def _kind(schema: Schema | None) -> str:
    return "interface" if schema is None else _KINDS.get(schema.form, schema.form.value)
