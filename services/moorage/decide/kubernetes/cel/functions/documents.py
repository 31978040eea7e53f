"""OCM's functions: the scores of a cluster, and JSON in a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from moorage.decide.kubernetes.cel.declarations import COST, SCORES, Frame, Overload, charge, method, tenth
from moorage.decide.kubernetes.cel.types import DYN, STRING, list_of
from moorage.decide.kubernetes.cel.values import CelError, FatalError, LimitError, Value

Scores = Callable[[str, str], Mapping[str, int] | None]
"""Looks up the scores of a cluster by the cluster's name and the name of the AddOnPlacementScore. None if there are
none."""

LIST_COST, MAP_COST = 10, 30

_DEEPEST: Final = 200
"""How deeply JSON may be nested."""

_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _scores(frame: Frame, cluster: Value, resource: str) -> list[dict[str, Value]]:
    frame[COST] += LIST_COST
    look_up: Scores | None = frame[SCORES]
    if look_up is None:
        raise CelError("scoreLister is nil")
    if type(cluster) is not dict:
        raise FatalError("internal error: no cluster")
    metadata = cluster.get("metadata")
    if "metadata" not in cluster:
        raise CelError("failed to get cluster metadata")
    if type(metadata) is not dict:
        raise FatalError("internal error: metadata is no map")
    if "name" not in metadata:
        raise CelError("failed to get cluster name")
    name = metadata["name"]
    if type(name) is not str:
        raise FatalError("internal error: the name is no string")
    found = look_up(name, resource)
    if found is None:
        raise CelError("failed to get score")
    frame[COST] += len(found) * (1 + MAP_COST)
    charge(frame, len(found))
    return [{"name": one, "value": value} for one, value in found.items()]


def _parsed(frame: Frame, text: str) -> Value:
    frame[COST] += tenth(len(text))
    charge(frame, len(text))
    if text.count("[") + text.count("{") > _DEEPEST and _depth(text) > _DEEPEST:
        raise LimitError(f"JSON is nested more than {_DEEPEST} deep")
    try:
        found = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_no_constant)
    except ValueError as error:
        raise CelError(f"failed to parse json: {error}") from None
    frame[COST] += _weight(found)
    return found


def _number(text: str) -> float:
    found = float(text)
    if found in {float("inf"), float("-inf")}:
        raise ValueError(f"{text} is out of range")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"invalid character in {text}")


def _depth(text: str) -> int:
    deepest = depth = 0
    for one in _TEXT.sub("", text):
        if one in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif one in "]}":
            depth -= 1
    return deepest


def _weight(value: Value) -> int:
    """Return the cost of a parsed value. Single surrogates are replaced in it, as Go does."""
    if isinstance(value, dict):
        total = MAP_COST
        for key, one in list(value.items()):
            if isinstance(one, str):
                if _SURROGATE.search(one):
                    value[key] = _SURROGATE.sub("\ufffd", one)
            else:
                total += _weight(one)
            if _SURROGATE.search(key):
                value[_SURROGATE.sub("\ufffd", key)] = value.pop(key)
        return total
    if isinstance(value, list):
        total = LIST_COST
        for place, one in enumerate(value):
            if isinstance(one, str):
                value[place] = _SURROGATE.sub("\ufffd", one)
            else:
                total += _weight(one)
        return total
    return 0


def _counted(_arguments: Sequence[Value]) -> int:
    """Return no cost, because the function counts its own."""
    return 0


OVERLOADS: Final[tuple[Overload, ...]] = (
    method("scores", (DYN, STRING), list_of(DYN), _scores, _counted, metered=True),
    method("parseJSON", (STRING,), DYN, _parsed, _counted, metered=True),
)
