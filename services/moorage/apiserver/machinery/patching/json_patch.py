"""JSON patches (RFC 6902): a list of operations, of which all or none are done."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import jsonpatch
from jsonpointer import JsonPointer, JsonPointerException

from moorage.apiserver.machinery.patching.errors import TOO_LARGE, PatchError, bad_patch, type_name, unprocessable
from moorage.apiserver.machinery.patching.merge_patch import same

MOST_OPERATIONS: Final = 10_000
"""The number of operations that a patch may have, as in Kubernetes."""

MOST_COPIED: Final = 3 << 20
"""The bytes of JSON that the operations `copy` of a patch may add, as in Kubernetes."""

_INDEX: Final = re.compile(r"[+-]?[0-9]+")
_OTHER_INDEX: Final = re.compile(r"/[+-]|/0[0-9]")
"""Where a path may have an index that RFC 6902 does not have: signed, or with zeros before it."""
_TYPES: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def applied(document: Mapping[str, Any], patch: Any) -> Any:
    """Return the document after a patch, as a new one. The result is what the last operation left, of any type.

    As in Kubernetes, and unlike in RFC 6902, indices may have a sign and leading zeros, and negative ones count from
    the end of a list. What a path has before its first slash is ignored, a value that is left out is null, and a field
    that an object does not have is null to `replace`, `copy` and `test`.

    Raises:
        PatchError: 400 if the patch is not a list of operations, 413 if there are too many, 422 if one of them cannot
            be done or a `test` fails.
    """
    if not isinstance(patch, list):
        raise bad_patch(f"error decoding patch: {_mismatch(patch, '[]handlers.jsonPatchOp')}")
    for operation in patch:
        _check(operation)
    if len(patch) > MOST_OPERATIONS:
        raise PatchError(
            413, TOO_LARGE, f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        )
    result: Any = json.loads(json.dumps(document))
    copied = 0
    for operation in patch:
        strict = _strict(operation, result)
        if strict["op"] == "copy":
            text = json.dumps(_found(result, strict["from"]), separators=(",", ":"))
            copied += len(text)
            if copied > MOST_COPIED:
                raise unprocessable()
            strict = {"op": "add", "path": strict["path"], "value": _Fresh(json.loads(text))}
        elif strict["op"] in {"add", "replace"}:
            strict["value"] = _Fresh(json.loads(json.dumps(strict["value"])))
        result = _done(result, strict)
    return result


class _Fresh:
    """A value without other users, which need not be copied.

    The library copies each value that it adds, node by node, which takes seconds for a million of them. Of this one it
    gets the value itself.
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __deepcopy__(self, _memo: object) -> Any:
        return self._value


def _done(document: Any, operation: Mapping[str, Any]) -> Any:
    if operation["op"] == "test":
        # The library's comparison is RFC 6902's as well, but the absence of a field is null to Kubernetes.
        path = operation["path"]
        found = None if _is_missing_field(document, path) else _found(document, path)
        if not same(found, operation.get("value")):
            raise unprocessable()
        return document
    try:
        return jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    except (jsonpatch.JsonPatchException, JsonPointerException):
        raise unprocessable() from None


def _check(operation: Any) -> None:
    """Refuse what is no operation."""
    if not isinstance(operation, dict):
        if operation is None:
            raise unprocessable()
        raise bad_patch(f"error decoding patch: {_mismatch(operation, 'handlers.jsonPatchOp')}")
    for name in ("op", "path", "from"):
        value = operation.get(name)
        if value is not None and not isinstance(value, str):
            raise bad_patch(
                f"error decoding patch: json: cannot unmarshal {_type(value)} into Go struct field "
                f"jsonPatchOp.{name} of type string"
            )
    needs = {"move": ("path", "from"), "copy": ("path", "from")}.get(str(operation.get("op")), ("path",))
    if operation.get("op") not in _OPERATIONS or any(operation.get(name) is None for name in needs):
        raise unprocessable()
    if operation["op"] in {"add", "remove", "copy", "move"} and not operation["path"]:
        raise unprocessable()


_OPERATIONS: Final = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def _strict(operation: Mapping[str, Any], document: Any) -> dict[str, Any]:
    """Return an operation that does by RFC 6902 what this one does in Kubernetes."""
    changed = dict(operation)
    op = changed["op"]
    for name in ("path", "from"):
        if (path := changed.get(name)) and not path.startswith("/"):
            if "/" not in path:
                raise unprocessable()
            path = changed[name] = path[path.index("/") :]
        if path and _OTHER_INDEX.search(path):
            changed[name] = _absolute_path(path, document, is_added=name == "path" and op in {"add", "copy", "move"})
    if op in {"add", "replace"}:
        changed.setdefault("value", None)
    if op == "replace" and _is_missing_field(document, changed["path"]):
        changed["op"] = "add"
    elif op == "copy" and _is_missing_field(document, changed["from"]):
        return {"op": "add", "path": changed["path"], "value": None}
    return changed


def _is_missing_field(document: Any, path: str) -> bool:
    """Return whether a path leads into an object that does not have its last part."""
    above, _, name = path.rpartition("/")
    parent = _found(document, above, is_required=False)
    return bool(path) and isinstance(parent, dict) and name.replace("~1", "/").replace("~0", "~") not in parent


def _absolute_path(path: str, document: Any, *, is_added: bool) -> str:
    parts = path.split("/")
    place: Any = document
    for number, part in enumerate(parts[1:], 1):
        is_last = number == len(parts) - 1
        if isinstance(place, list) and _INDEX.fullmatch(part):
            index = int(part)
            if index < 0:
                index += len(place) + (1 if is_last and is_added else 0)
            if index < 0:
                raise unprocessable()
            parts[number] = str(index)
        if not is_last:
            place = _found(place, f"/{parts[number]}", is_required=False)
    return "/".join(parts)


def _found(document: Any, path: str, *, is_required: bool = True) -> Any:
    """Return the value at a path. None if there is none and it is not required."""
    try:
        return JsonPointer(path).resolve(document)
    except JsonPointerException:
        if is_required:
            raise unprocessable() from None
        return None


def _type(value: Any) -> str:
    return _TYPES.get(type(value), type_name(value))


def _mismatch(value: Any, wanted: str) -> str:
    return f"json: cannot unmarshal {_type(value)} into Go value of type {wanted}"
