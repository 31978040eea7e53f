"""The words of `kubectl taint`: reading its specs, and what they do to a target's taints.

Texts of errors are kubectl's, for they are an interface that people and scripts know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from moorage.core.apimachinery import names
from moorage.core.taints.dialects.kubernetes import KUBERNETES, EffectRules
from moorage.core.taints.eviction_verdict import taint_text
from moorage_schemas.taint import Taint


class TaintSpecError(ValueError):
    """A spec cannot be read, or cannot be applied; the message is kubectl's."""


@dataclass(frozen=True, slots=True)
class TaintSpecs:
    """What a command asks for.

    Attributes:
        add: taints to put on, without `timeAdded`.
        remove: taints to take off, without value; an empty effect means every effect of the key.
    """

    add: tuple[Taint, ...]
    remove: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class TaintUpdate:
    """A target's taints after a change.

    Attributes:
        taints: all of them, in their order: those that stay in place, new ones at the end.
        fresh: for each of `taints`, whether this change added or overwrote it.
        removed: those that are gone.
    """

    taints: tuple[Taint, ...]
    fresh: tuple[bool, ...]
    removed: tuple[Taint, ...]

    @property
    def changed(self) -> bool:
        """Whether anything is other than before."""
        return any(self.fresh) or bool(self.removed)


def _parse_one(spec: str, dialect: EffectRules, *, strict: bool) -> Taint:
    """One spec without the trailing minus: `key=value:effect`, `key:effect` or `key`."""
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
    """Read specs: `key=value:effect` and `key:effect` add; with a minus behind, or `key-`, they remove.

    Args:
        specs: in the command's order.
        dialect: whose effects are allowed.
        strict: as documented: a key is at most 253 bytes in all, and the messages are Kubernetes 1.37's.
            False answers as the code that Karmada carries: longer keys, an older wording.

    Raises:
        TaintSpecError: the first spec that cannot be read, or that adds a (key, effect) a second time.
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
    """The taints of a target after additions and removals, both held against `current`; nothing is refused.

    Adding what is there by (key, effect) changes nothing, `timeAdded` and value included, unless `overwrite`
    is set: then value and `timeAdded` are new and its place is kept. Removal wins over what is there.

    Args:
        current: the taints before.
        add: taints to put on; their own `timeAdded` is not used.
        remove: taints to take off, by key and effect; an empty effect takes off every effect of the key.
        overwrite: whether what is there by (key, effect) is replaced.
        added_at: the `timeAdded` of every taint that is put on.
        strict: False answers as upstream's code does: a removal with an empty effect finds only a taint
            without effect, and one (key, effect) may be added twice.
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
    """What `kubectl taint` does to one target, with its refusals.

    Args:
        target: how the message names it, such as `node n1`.
        current: its taints.
        specs: what the command asks for.
        overwrite: `--overwrite`.
        added_at: the `timeAdded` of every taint that is put on.

    Raises:
        TaintSpecError: nothing is asked for; a taint is both added and removed; one that is there is added
            without `overwrite`; one that is not there is removed.
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
