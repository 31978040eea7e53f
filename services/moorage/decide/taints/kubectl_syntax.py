"""The syntax of `kubectl taint`: parsing its specs, and applying them to a target's taints.

Error messages are those of kubectl, because people and scripts expect them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from moorage.decide.kubernetes import names
from moorage.decide.taints.dialects.kubernetes import KUBERNETES, EffectRules
from moorage.decide.taints.eviction_verdict import taint_text
from moorage_schemas.taint import Taint


class TaintSpecError(ValueError):
    """A spec cannot be parsed or applied. The message is kubectl's."""


@dataclass(frozen=True, slots=True)
class TaintSpecs:
    """The parsed specs of a command.

    Attributes:
        add: taints to add, without `timeAdded`.
        remove: taints to remove, without value. An empty effect means every effect of the key.
    """

    add: tuple[Taint, ...]
    remove: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class TaintUpdate:
    """A target's taints after a change.

    Attributes:
        taints: all taints. Those that stay keep their order, new ones are at the end.
        fresh: for each of `taints`, whether this change added or overwrote it.
    """

    taints: tuple[Taint, ...]
    fresh: tuple[bool, ...]
    removed: tuple[Taint, ...]


def _parse_one(spec: str, dialect: EffectRules, *, strict: bool) -> Taint:
    """Parse one spec without the trailing minus: `key=value:effect`, `key:effect` or `key`."""
    wording = names.TODAY if strict else names.OLDER
    head, *rest = spec.split(":")
    if len(rest) > 1:
        raise TaintSpecError(f"invalid taint spec: {spec}")
    key, value, effect = head, "", ""
    if rest:
        effect = rest[0]
        if effect not in dialect.effects:
            raise TaintSpecError(f"invalid taint effect: {effect}, unsupported taint effect")
        key, *values = head.split("=")
        if len(values) > 1:
            raise TaintSpecError(f"invalid taint spec: {spec}")
        value = values[0] if values else ""
        messages = names.check_label_value(value, wording)
        if messages:
            raise TaintSpecError(f"invalid taint spec: {spec}, {'; '.join(messages)}")
    messages = names.check_qualified_name(key, wording)
    if strict and not messages:
        messages = names.check_key_length(key)
    if messages:
        raise TaintSpecError(f"invalid taint spec: {spec}, {'; '.join(messages)}")
    return Taint(key=key, value=value, effect=effect)


def parse_taints(specs: Iterable[str], dialect: EffectRules = KUBERNETES, *, strict: bool = True) -> TaintSpecs:
    """Parse specs. `key=value:effect` and `key:effect` add a taint. With a trailing minus, and for `key-`, they remove.

    Args:
        specs: the specs in the order of the command.
        dialect: defines the allowed effects.
        strict: whether to follow the documentation: a key has at most 253 bytes in all, and messages are those of
            Kubernetes 1.37. False behaves like the code that Karmada contains: longer keys and older messages.

    Raises:
        TaintSpecError: the first spec that cannot be parsed, or that adds a (key, effect) a second time.
    """
    add: list[Taint] = []
    remove: list[Taint] = []
    seen: set[tuple[str, str]] = set()
    for spec in specs:
        if spec.endswith("-"):
            taint = _parse_one(spec[:-1], dialect, strict=strict)
            remove.append(Taint(key=taint.key, effect=taint.effect))
            continue
        taint = _parse_one(spec, dialect, strict=strict)
        if not taint.effect:
            raise TaintSpecError(f"invalid taint spec: {spec}")
        if taint.identity in seen:
            shown = f"{{{taint.key} {taint.value} {taint.effect} <nil>}}"
            raise TaintSpecError(f"duplicated taints with the same key and effect: {shown}")
        seen.add(taint.identity)
        add.append(taint)
    return TaintSpecs(tuple(add), tuple(remove))


def _removes(removal: Taint, taint: Taint, *, strict: bool) -> bool:
    if removal.key != taint.key:
        return False
    return removal.effect == taint.effect or (strict and not removal.effect)


def set_taints(
    current: Sequence[Taint],
    add: Sequence[Taint],
    remove: Sequence[Taint],
    *,
    overwrite: bool = False,
    added_at: datetime | None = None,
    strict: bool = True,
) -> TaintUpdate:
    """Add and remove taints of a target. Both are compared with `current`; nothing is refused.

    Adding a (key, effect) that is already there changes nothing, neither its value nor its `timeAdded`. With
    `overwrite`, the taint gets the new value and `timeAdded` and keeps its position. If a taint is both there and to be
    removed, it is removed.

    Args:
        current: the present taints.
        add: the taints to add. Their own `timeAdded` is ignored.
        remove: the taints to remove, by key and effect. An empty effect removes every effect of the key.
        overwrite: whether a taint with the same (key, effect) is replaced.
        added_at: the `timeAdded` of every taint that is added or replaced.
        strict: False behaves like upstream's code: a removal with an empty effect matches only a taint without effect,
            and one (key, effect) may be added twice.
    """
    known = {taint.identity for taint in current}
    wanted: dict[tuple[str, str], Taint] = {}
    for taint in add:
        wanted.setdefault(taint.identity, taint)
    taints: list[Taint] = []
    fresh: list[bool] = []
    removed: list[Taint] = []
    for taint in current:
        if any(_removes(removal, taint, strict=strict) for removal in remove):
            removed.append(taint)
        elif overwrite and taint.identity in wanted:
            taints.append(wanted[taint.identity].model_copy(update={"time_added": added_at}))
            fresh.append(True)
        else:
            taints.append(taint)
            fresh.append(False)
    for taint in wanted.values() if strict else add:
        if taint.identity not in known:
            taints.append(taint.model_copy(update={"time_added": added_at}))
            fresh.append(True)
    return TaintUpdate(tuple(taints), tuple(fresh), tuple(removed))


def apply_specs(
    target: str,
    current: Sequence[Taint],
    specs: TaintSpecs,
    *,
    overwrite: bool = False,
    added_at: datetime | None = None,
) -> TaintUpdate:
    """Apply the effect of `kubectl taint` to one target, including its refusals.

    Args:
        target: the name of the target in messages, such as `node n1`.
        current: the present taints.
        specs: the parsed specs of the command.
        overwrite: the flag `--overwrite`.
        added_at: the `timeAdded` of every taint that is added or replaced.

    Raises:
        TaintSpecError: there are no specs; a taint is both added and removed; a taint that exists is added without
    `overwrite`; or a taint that does not exist is removed.
    """
    if not specs.add and not specs.remove:
        raise TaintSpecError("at least one taint update is required")
    both = [
        f"{removal.key}={removal.effect}"
        for added in specs.add
        for removal in specs.remove
        if _removes(removal, added, strict=True)
    ]
    if both:
        raise TaintSpecError(
            f"can not both modify and remove the following taint(s) in the same command: {', '.join(both)}"
        )
    identities = {taint.identity for taint in specs.add}
    there = [taint.key for taint in current if taint.identity in identities]
    if there and not overwrite:
        raise TaintSpecError(
            f"{target} already has {','.join(there)} taint(s) with same effect(s) and --overwrite is false"
        )
    missing = [
        f'taint "{taint_text(removal)}" not found'
        for removal in specs.remove
        if not any(_removes(removal, taint, strict=True) for taint in current)
    ]
    if len(missing) == 1:
        raise TaintSpecError(missing[0])
    if missing:
        raise TaintSpecError(f"[{', '.join(missing)}]")
    return set_taints(current, specs.add, specs.remove, overwrite=overwrite, added_at=added_at)
