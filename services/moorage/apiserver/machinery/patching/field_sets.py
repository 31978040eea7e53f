"""Sets of fields, in the form in which `managedFields` has them (`FieldsV1`).

A set is a tree of dictionaries. Its keys are the elements of paths: `f:replicas` is a field, `k:{"name":"a"}` the
element of a list with these keys, `v:"a"` a scalar in a list, `i:0` an index. An element without anything below it
belongs to the set. One with something below it belongs to it only if it also has the key `.`. No set is changed after
it has been made, so sets share their parts.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

FieldSet = dict[str, Any]

SELF: Final = "."
_NOTHING: Final[FieldSet] = {}
_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
_KINDS: Final = "fkvi"


def element_of_value(value: Any) -> str:
    """Return the path element of a scalar in a list."""
    return f"v:{_json(value)}"


def element_of_keys(keys: Mapping[str, Any]) -> str:
    """Return the path element of an object in a list. The keys are sorted by name."""
    return f"k:{_json(keys)}"


def make(*paths: tuple[str, ...]) -> FieldSet:
    """Return the set of these paths of field names."""
    result: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path):
            node = {f"f:{name}": node}
        result = union(result, node)
    return result


def is_member(node: FieldSet) -> bool:
    """Return whether the element that leads to a node belongs to the set."""
    return not node or SELF in node


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the union of two sets."""
    if not one or not other:
        return one or other
    result = dict(one)
    for key, node in other.items():
        have = result.get(key)
        if have is None or have is node:
            result[key] = node
            continue
        below = union(have, node)
        if below and SELF not in below and (not have or not node):
            below = {SELF: {}, **below}
        result[key] = below
    return result


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the first set without the second. Parts below an element do not count as the element."""
    result: FieldSet | None = None
    for key, gone in other.items():
        have = one.get(key)
        if have is None or key == SELF:
            continue
        below = difference(_below(have), gone) if have and gone else _below(have)
        node = _node(below, is_self=is_member(have) and not is_member(gone))
        if node is have or node == have:
            continue
        result = dict(one) if result is None else result
        if node is None:
            del result[key]
        else:
            result[key] = node
    return one if result is None else result


def without(one: FieldSet, gone: FieldSet) -> FieldSet:
    """Return the first set without the elements of the second and all that is below them."""
    result: FieldSet | None = None
    for key, node in gone.items():
        have = one.get(key)
        if have is None or key == SELF:
            continue
        left: FieldSet | None = None
        if not is_member(node):
            left = _node(without(_below(have), node), is_self=is_member(have))
            if left == have:
                continue
        result = dict(one) if result is None else result
        if left is None:
            del result[key]
        else:
            result[key] = left
    return one if result is None else result


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the intersection of two sets."""
    result: FieldSet = {}
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    for key, left in small.items():
        right = large.get(key)
        if right is None or key == SELF:
            continue
        node = _node(intersection(left, right), is_self=is_member(left) and is_member(right))
        if node is not None:
            result[key] = node
    return result


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the paths of a set as Kubernetes writes them in messages: `.spec.containers[name="a"].image`.

    At each level, what belongs to the set comes first, in the order of the elements.
    """
    ordered = sorted((key for key in fields if key != SELF), key=_rank)
    for key in ordered:
        if is_member(fields[key]):
            yield prefix + written(key)
    for key in ordered:
        yield from paths(_below(fields[key]), prefix + written(key))


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Return whether a path, given by its elements, belongs to a set."""
    for key in path:
        found = fields.get(key)
        if found is None:
            return False
        fields = found
    return is_member(fields)


def members(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the elements of each path of a set, in the order of `paths`."""
    ordered = sorted((key for key in fields if key != SELF), key=_rank)
    yield from ((*prefix, key) for key in ordered if is_member(fields[key]))
    for key in ordered:
        yield from members(_below(fields[key]), (*prefix, key))


def ordered(fields: FieldSet) -> FieldSet:
    """Return the same set, with its elements in the order in which Kubernetes writes them."""
    if not fields:
        return fields
    names = sorted((key for key in fields if key != SELF), key=_rank)
    start: FieldSet = {SELF: {}} if SELF in fields else {}
    return {**start, **{key: ordered(fields[key]) for key in names}}


def read(fields: Any) -> FieldSet:
    """Return the set in a `fieldsV1` that a client has written. Raises ValueError if it is none."""
    if not isinstance(fields, dict):
        raise ValueError("fieldsV1: must be an object")  # noqa: TRY004 - what a client sends has a wrong value
    result: FieldSet = {}
    for key, value in fields.items():
        if key == SELF:
            result[SELF] = {}
            continue
        if key[1:2] != ":":
            raise ValueError(f"fieldsV1: invalid path element {key!r}")
        if key[0] not in _KINDS:
            continue  # of a later version of Kubernetes
        below = read(value)
        result[_canonical(key)] = {} if list(below) == [SELF] else below
    return result


def _canonical(key: str) -> str:
    if key[0] == "f":
        return key
    value = json.loads(key[2:])
    if key[0] == "i" and not isinstance(value, int):
        raise ValueError(f"fieldsV1: invalid path element {key!r}")
    if key[0] == "k" and not isinstance(value, dict):
        raise ValueError(f"fieldsV1: invalid path element {key!r}")
    return f"{key[:2]}{_json(value)}"


def _below(node: FieldSet) -> FieldSet:
    if SELF not in node:
        return node
    return {key: inner for key, inner in node.items() if key != SELF}


def _node(below: FieldSet, *, is_self: bool) -> FieldSet | None:
    """Return the node of an element. None if neither it nor anything below it belongs to the set."""
    if not below:
        return _NOTHING if is_self else None
    return {SELF: {}, **below} if is_self else below


def _json(value: Any) -> str:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if "<" in text or ">" in text or "&" in text:
        for char, escaped in _ESCAPED.items():
            text = text.replace(char, escaped)
    return text


@functools.lru_cache(maxsize=4096)
def _rank(key: str) -> tuple[Any, ...]:
    """Return the order of path elements: fields, then keys, then values, then indices."""
    kind, text = key[0], key[2:]
    if kind == "f":
        return (0, text)
    value = json.loads(text)
    if kind == "k":
        return (1, *((name, *_rank_of_value(value[name])) for name in sorted(value)))
    return (2, *_rank_of_value(value)) if kind == "v" else (3, value)


def _rank_of_value(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, (int, float)):
        return (0, value)
    return (1, value) if isinstance(value, str) else (3, json.dumps(value))


@functools.lru_cache(maxsize=4096)
def written(key: str) -> str:
    """Return a path element as Kubernetes writes it in messages: `.image`, `[name="a"]`."""
    kind, text = key[0], key[2:]
    if kind == "f":
        return f".{text}"
    value = json.loads(text)
    if kind == "k":
        return f"[{','.join(f'{name}={_text(value[name])}' for name in sorted(value))}]"
    return f"[={_text(value)}]" if kind == "v" else f"[{text}]"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
