"""The dialect of devices (Kubernetes' dynamic resource allocation): the meaning of each effect, and of tolerations.

A device's taints come from its ResourceSlice and from DeviceTaintRules. The tolerations are those of the request that
got the device. Unlike for nodes, the shortest of all tolerations that match counts, not the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from moorage.decide.taints.dialects.kubernetes import Dialect
from moorage_schemas.taint import Taint, TaintEffect, Toleration, TolerationOperator

NO_EFFECT: Final = "None"
"""The effect of a taint that only informs."""

DEVICES: Final = Dialect(
    name="devices",
    effects=(NO_EFFECT, TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value),
    filtering=frozenset({TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value}),
    scoring=frozenset(),
    evicting=frozenset({TaintEffect.NO_EXECUTE.value}),
)

_EQUAL: Final = ("", TolerationOperator.EQUAL.value)
_EXISTS: Final = TolerationOperator.EXISTS.value


def tolerates_on_device(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration matches a taint of a device. `Exists` ignores its value, and there is no `Gt`."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == _EXISTS:
        return True
    return toleration.operator in _EQUAL and toleration.value == taint.value


def keeps_away(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Return whether a taint of a device keeps a request away that has these tolerations."""
    return any(
        taint.effect in DEVICES.filtering and not any(tolerates_on_device(one, taint) for one in tolerations)
        for taint in taints
    )


def leaves_at(taint: Taint, tolerations: Iterable[Toleration]) -> datetime | None:
    """Return when work leaves a device because of a taint. None if it may stay.

    A toleration counts only if it names the effect NoExecute. One without seconds tolerates the taint forever. Else the
    fewest seconds of all that match count from the taint's `timeAdded`; without any, the work leaves at that time.

    Raises:
        ValueError: the taint has no `timeAdded`.
    """
    if taint.effect not in DEVICES.evicting:
        return None
    if taint.time_added is None:
        raise ValueError(f"timeAdded: Required value: taint {taint.key}")
    least: int | None = None
    for one in tolerations:
        if one.effect != taint.effect or not tolerates_on_device(one, taint):
            continue
        if one.toleration_seconds is None:
            return None
        seconds = max(one.toleration_seconds, 0)
        least = seconds if least is None else min(least, seconds)
    try:
        return taint.time_added + timedelta(seconds=least or 0)
    except OverflowError:
        return None
