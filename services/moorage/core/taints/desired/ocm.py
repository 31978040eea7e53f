"""The taints that the system keeps on a managed cluster, and who sets `timeAdded` on the others.

See docs/domain.md, "Managed cluster taints".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moorage.core.apimachinery.field_errors import quote
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE
from moorage_schemas.taint import Taint, TaintEffect

AVAILABLE: Final = MANAGED_CLUSTER_AVAILABLE
"""The condition that the built-in taints follow."""

UNAVAILABLE_KEY: Final = "cluster.open-cluster-management.io/unavailable"
UNREACHABLE_KEY: Final = "cluster.open-cluster-management.io/unreachable"

UNAVAILABLE: Final = Taint(key=UNAVAILABLE_KEY, effect=TaintEffect.NO_SELECT)
"""What a cluster carries that says it is not available."""

UNREACHABLE: Final = Taint(key=UNREACHABLE_KEY, effect=TaintEffect.NO_SELECT)
"""What a cluster carries whose availability nobody knows, or nobody has ever reported."""

BUILT_IN: Final = (UNAVAILABLE, UNREACHABLE)


def built_in_taint(available: str | None) -> Taint | None:
    """The built-in taint that goes with a status of the condition `AVAILABLE`, without `timeAdded`.

    Args:
        available: `True`, `False` or `Unknown`; None when the cluster has no such condition.

    Returns:
        `unreachable` for Unknown and for no condition, `unavailable` for False, else None.
    """
    if available is None or available == "Unknown":
        return UNREACHABLE
    return UNAVAILABLE if available == "False" else None


def _same(taint: Taint, other: Taint) -> bool:
    return taint.identity == other.identity and taint.value == other.value


@dataclass(frozen=True, slots=True)
class BuiltInUpdate:
    """What the built-in taints make of a cluster's taints.

    Attributes:
        taints: all of them, those that stay in their order, an added one last.
        added: the built-in taint that was added, None when none was.
        removed: the built-in taints that were taken away.
    """

    taints: tuple[Taint, ...]
    added: Taint | None
    removed: tuple[Taint, ...]


def with_built_in(taints: Sequence[Taint], available: str | None, *, by_identity: bool = True) -> BuiltInUpdate:
    """Put the built-in taint for this status on a cluster, and take the other away.

    Only a taint without value and with the effect NoSelect is taken away; a person's taint of the same key with
    another value or effect stays. A status that is none of the three changes nothing.

    Args:
        taints: those that the cluster has.
        available: the status of the condition `AVAILABLE`; None when there is none.
        by_identity: whether a taint of the same key and effect stands in for the built-in one, whatever its value;
            else, as OCM's controller has it, the value must be the same too, and the cluster may have both.
    """
    if available not in {None, "True", "False", "Unknown"}:
        return BuiltInUpdate(tuple(taints), None, ())
    wanted = built_in_taint(available)
    unwanted = [taint for taint in BUILT_IN if taint is not wanted]
    removed = tuple(t for t in taints if any(_same(t, other) for other in unwanted))
    left = tuple(t for t in taints if not any(_same(t, other) for other in unwanted))
    if wanted is None or any(_same(t, wanted) or (by_identity and t.identity == wanted.identity) for t in left):
        return BuiltInUpdate(left, None, removed)
    return BuiltInUpdate((*left, wanted), wanted, removed)


@dataclass(frozen=True, slots=True)
class Submitted:
    """What becomes of the taints that a person submits.

    Attributes:
        taints: as submitted; those that are `fresh` without `timeAdded`, for it is the time of the change.
        fresh: for each of them whether its `timeAdded` is the time of the change.
        refused: as upstream, keys of taints whose `timeAdded` may not be set so; nothing is to be changed then.
    """

    taints: tuple[Taint, ...]
    fresh: tuple[bool, ...]
    refused: tuple[str, ...]

    @property
    def message(self) -> str:
        """The refusal in words; empty when nothing is refused."""
        return f"It is not allowed to set TimeAdded of Taint {quote(','.join(self.refused))}." if self.refused else ""


def submitted(taints: Sequence[Taint], old: Sequence[Taint] | None, *, as_upstream: bool = False) -> Submitted:
    """Set `timeAdded` of the taints that a person submits, as the system alone may.

    On a create every taint's `timeAdded` is the time of the change, on an update that of the taints that are new or
    have changed; a taint that stays as it was keeps its own. What the person says of it is not used.

    Args:
        taints: those submitted.
        old: those that the cluster has; None on a create.
        as_upstream: do as OCM's webhook does: on an update a `timeAdded` that is not what it is to be is refused, that
            of a taint that stays must be repeated, and the taint that was there is the first one of that key.
    """
    kept: list[Taint] = []
    fresh: list[bool] = []
    refused: list[str] = []
    for taint in taints:
        there = next((one for one in old or () if _stands_for(one, taint, as_upstream=as_upstream)), None)
        unchanged = there is not None and _same(taint, there)
        time = there.time_added if there is not None and unchanged else None
        if as_upstream and old is not None and taint.time_added != time:
            refused.append(taint.key)
        kept.append(taint.model_copy(update={"time_added": time}))
        fresh.append(not unchanged)
    return Submitted(tuple(kept), tuple(fresh), tuple(refused))


def _stands_for(there: Taint, taint: Taint, *, as_upstream: bool) -> bool:
    return there.key == taint.key if as_upstream else there.identity == taint.identity
