"""By which rules a strategic merge patch merges a field: what the schema says of it, and the marks in the patch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.apiserver.machinery.patching.errors import bad_patch, quoted, shown, type_name, unprocessable
from moorage.apiserver.machinery.schema import Form, Schema

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
    """How a field with an object is merged.

    Args:
        schema: what the field is in.
        name: the name of the field.

    Raises:
        PatchError: 400 if the schema does not know the field.
    """
    found = _field(schema, name)
    strategies = found.patch_strategies
    others = sorted(strategies - {"retainKeys"})
    return FieldRule(found, others[0] if others else "", found.merge_key, "retainKeys" in strategies)


def rule_of_list(schema: Schema | None, name: str) -> FieldRule:
    """How a field with a list is merged. Its schema is that of the elements.

    Raises:
        PatchError: 400 if the schema does not know the field, or it is no list.
    """
    rule = rule_of_object(schema, name)
    if rule.schema is None or rule.schema.form is not Form.LIST:
        raise bad_patch(f"expected slice or array type, but got: {_kind(schema)}")
    return FieldRule(rule.schema.items, rule.strategy, rule.merge_key, rule.retains_keys)


def list_name(key: str, mark: str) -> str:
    """The name of the list that a marked key of a patch belongs to.

    Raises:
        PatchError: 400 if the key has no name.
    """
    found, slash, name = key.partition("/")
    if not slash or found != mark:
        raise bad_patch(f"invalid patch format of {'primitive' if mark == DELETE_SCALARS else 'setElementOrder'} list")
    return name


def kind_of(schema: Schema | None) -> str:
    """What a schema is, as Kubernetes' messages call it."""
    return _kind(schema)


def check_elements(*lists: Sequence[Any]) -> type:
    """The type that all elements have: `dict` for objects.

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
    """The value by which an element is told from others.

    Raises:
        PatchError: 400 if it is no object, or has no such field.
    """
    if not isinstance(element, Mapping):
        raise bad_patch(f"expected a map[string]interface {{}}, but received a {type_name(element)}")
    if merge_key not in element:
        raise no_merge_key(element, merge_key)
    return element[merge_key]


def no_merge_key(element: Mapping[str, Any], merge_key: str) -> Exception:
    """400: an element of a list does not have the field that would tell which one it is."""
    return bad_patch(f"map: {shown(element)} does not contain declared merge key: {merge_key}")


def identity(value: Any) -> Any:
    """What two equal JSON values have in common, and no others, for use as a key. Unlike in Python, true is not 1."""
    if isinstance(value, bool):
        return (value,)
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else value


def places(elements: Sequence[Any], merge_key: str) -> dict[Any, int]:
    """The index of the first element with each value of the merge key, or of each scalar if there is no key.

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
    """What an element of a merged list is told from others by.

    Raises:
        PatchError: 400 if it is no object, or has no such field.
    """
    return identity(key_of(element, merge_key) if merge_key else element)


def in_order(elements: Sequence[Any], order: Sequence[Any], merge_key: str) -> list[Any]:
    """The elements sorted as `order` has them. Those that are marked for deletion come last."""
    for element in (*elements, *order) if merge_key else ():
        key_of(element, merge_key)
    place = places(order, merge_key)
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
