"""The words of errors about patches whose result is not of the type of its kind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_FLAW: Final = re.compile(
    r"cannot unmarshal (?P<found>\w+) into Go (?:struct field \S+|value) of type (?P<wanted>\S+)$"
)
_KINDS: Final = {"object": "map", "array": "slice", "number": "int64"}


def conversion_flaw(reason: str) -> str:
    """Return why a value cannot be converted to the type of its field, as an API server words it of strategic patches.

    Args:
        reason: why it could not be decoded, as it is worded of all other bodies.
    """
    found = _FLAW.search(reason)
    if found is None:
        return reason
    kind, wanted = _KINDS.get(found["found"], found["found"]), found["wanted"]
    if wanted.startswith("[]"):
        return f"cannot restore slice from {kind}"
    if wanted.startswith("map["):
        return f"cannot restore map from {kind}"
    if "." in wanted:
        return f"cannot restore struct from: {kind}"
    if (kind, wanted) == ("int64", "string"):
        return "cannot convert int64 to string"
    return f"unrecognized type: {wanted}"


def as_map(value: Any) -> str:
    """Return a patch as an API server prints it: `map[spec:map[replicas:two]]`."""
    match value:
        case Mapping():
            return f"map[{' '.join(f'{key}:{as_map(one)}' for key, one in sorted(value.items()))}]"
        case list():
            return f"[{' '.join(map(as_map, value))}]"
        case str():
            return value
        case None:
            return "<nil>"
    return json.dumps(value)
