"""Counts the rows of a state: everything that its containers hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

_FLAT = (list, set, frozenset, deque)


def rows_of(state: object) -> int:
    """The number of entries of all mappings, lists, sets and queues of an object and of the objects that it is made of.

    Only objects of Moorage's services and rules are looked into. Events, settings and what libraries have are not.
    """
    seen: set[int] = set()
    waiting: list[Any] = [state]
    rows = 0
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            rows += len(value)
            waiting += [one for one in value.values() if _is_looked_into(one)]
        elif isinstance(value, _FLAT):
            rows += len(value)
        else:
            waiting += [one for one in _parts(value) if _is_looked_into(one)]
    return rows


def _is_looked_into(value: object) -> bool:
    if isinstance(value, (Mapping, *_FLAT)):
        return True
    kind = type(value)
    return kind.__module__.startswith(("moorage.workers", "moorage.decide", "moorage.runtime.engine.portions"))


def _parts(value: object) -> Iterator[Any]:
    yield from getattr(value, "__dict__", {}).values()
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            plain = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            if hasattr(value, plain):
                yield getattr(value, plain)
