"""The effect of each field of a kind: a rule reads it, or its writer is warned or refused.

The list is data (`field_effects.yaml`). Tests compare it with the structure of each kind, field by field, so a field
that upstream adds is not ignored silently. docs/fields.md shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml


class Effect(StrEnum):
    """The effect of a field."""

    READ = "read"
    """A rule follows it, as upstream's does."""

    WRITTEN = "written"
    """Moorage determines it."""

    FACT = "fact"
    """It is stored and shown, and no decision depends on it, here as upstream."""

    WARNED = "warned"
    """It is stored without effect, and its writer gets a warning."""

    REFUSED = "refused"
    """An object with it is refused."""

    UNREAD = "unread"
    """It is mirrored from a control plane, and no rule reads it, although one of upstream's does."""

    POD = "pod"
    """It is the spec of a pod, whose fields have the effects that they have there."""


@dataclass(frozen=True, slots=True)
class FieldEffect:
    """The effect of a part of an object."""

    path: str
    """`spec.taints[].key`: `[]` stands for each element of a list or of a map."""

    effect: Effect
    why: str = ""
    unless: tuple[Any, ...] = ()
    """Values that need no warning, because they state what happens anyway."""


_FILE: Final = Path(__file__).with_suffix(".yaml")


@cache
def effects() -> Mapping[str, tuple[FieldEffect, ...]]:
    """Return the effects of the fields of each kind on the list."""
    said: Mapping[str, Mapping[str, Any]] = yaml.safe_load(_FILE.read_text("utf-8"))
    return {kind: tuple(_read(path, entry) for path, entry in fields.items()) for kind, fields in said.items()}


_POD: Final = "Pod"
_POD_SPEC: Final = "spec"


def _read(path: str, entry: str | Mapping[str, Any]) -> FieldEffect:
    if isinstance(entry, str):
        return FieldEffect(path, Effect(entry))
    effect = next(one for one in Effect if one.value in entry)
    return FieldEffect(path, effect, entry[effect.value], tuple(entry.get("unless", ())))


def entry_of(kind: str, path: str) -> FieldEffect | None:
    """Return the longest entry that covers a field of a kind. None if the list lacks it."""
    covering = [one for one in effects().get(kind, ()) if f"{path}.".startswith((f"{one.path}.", f"{one.path}[]"))]
    return max(covering, key=lambda one: len(one.path), default=None)


def effect_of(kind: str, path: str) -> FieldEffect | None:
    """Return the effect of a field, also in the spec of a pod within another kind. None if the list lacks it."""
    found = entry_of(kind, path)
    if found is not None and found.effect is Effect.POD:
        return effect_of(_POD, _POD_SPEC + path.removeprefix(found.path))
    return found


def ineffective_fields(kind: str, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each field of a document that is set and has no effect."""
    for one in _warned(kind):
        if any(value and value not in one.unless for value in _values(document, one.path.split("."))):
            yield f"{one.path} has no effect{': ' if one.why else ''}{one.why}"


@cache
def _warned(kind: str) -> tuple[FieldEffect, ...]:
    found: list[FieldEffect] = []
    for one in effects().get(kind, ()):
        if one.effect is Effect.WARNED:
            found.append(one)
        elif one.effect is Effect.POD:
            found += [replace(of, path=one.path + of.path.removeprefix(_POD_SPEC)) for of in _warned(_POD)]
    return tuple(found)


def _values(found: Any, steps: list[str]) -> Iterator[Any]:
    """Yield the values at a path."""
    if not steps:
        yield found
        return
    name = steps[0].removesuffix("[]")
    if not isinstance(found, Mapping) or (value := found.get(name)) is None:
        return
    if name == steps[0]:
        yield from _values(value, steps[1:])
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, steps[1:])
