"""The taints that the system maintains on a managed cluster, and the `timeAdded` of the other taints.

See docs/domain.md, "Managed cluster taints".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moorage.decide.kubernetes.field_errors import quote
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE
from moorage_schemas.taint import Taint, TaintEffect

AVAILABLE: Final = MANAGED_CLUSTER_AVAILABLE
"""The condition that determines the built-in taints."""

UNAVAILABLE_KEY: Final = "cluster.open-cluster-management.io/unavailable"
UNREACHABLE_KEY: Final = "cluster.open-cluster-management.io/unreachable"

UNAVAILABLE: Final = Taint(key=UNAVAILABLE_KEY, effect=TaintEffect.NO_SELECT)
"""The taint of a cluster that reports that it is not available."""

UNREACHABLE: Final = Taint(key=UNREACHABLE_KEY, effect=TaintEffect.NO_SELECT)
"""The taint of a cluster whose availability is unknown or was never reported."""

BUILT_IN: Final = (UNAVAILABLE, UNREACHABLE)


def built_in_taint(available: str | None) -> Taint | None:
    """Return the built-in taint for a status of the condition `AVAILABLE`, without `timeAdded`.

    Args:
        available: `True`, `False` or `Unknown`. None if the cluster does not have the condition.

    Returns:
        `unreachable` for Unknown and for a missing condition, `unavailable` for False, otherwise None.
    """
    if available is None or available == "Unknown":
        return UNREACHABLE
    return UNAVAILABLE if available == "False" else None


def _same(taint: Taint, other: Taint) -> bool:
    return taint.identity == other.identity and taint.value == other.value


@dataclass(frozen=True, slots=True)
class BuiltInUpdate:
    """A cluster's taints after the built-in taints were updated.

    Attributes:
        taints: all taints. Those that stay keep their order, and an added one is last.
        added: the built-in taint that was added. None if none was.
    """

    taints: tuple[Taint, ...]
    added: Taint | None
    removed: tuple[Taint, ...]


def with_built_in(taints: Sequence[Taint], available: str | None, *, by_identity: bool = True) -> BuiltInUpdate:
    """Add the built-in taint for this status to a cluster, and remove the other one.

    Only a taint without value and with the effect NoSelect is removed. A person's taint with the same key but another
    value or effect stays. Any other status changes nothing.

    Args:
        taints: the cluster's present taints.
        available: the status of the condition `AVAILABLE`. None if there is none.
        by_identity: whether a taint with the same key and effect counts as the built-in one, whatever its value. If
    not, the value must also be the same, and the cluster may have both taints, as with OCM's controller.
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
    """The result for the taints that a person submits.

    Attributes:
        taints: the submitted taints. Those that are `fresh` have no `timeAdded`, because it will be the time of the
            change.
        fresh: for each of the taints, whether its `timeAdded` is the time of the change.
        refused: with upstream's behaviour, the keys of taints whose `timeAdded` is not allowed. If there are any,
            nothing may be changed.
    """

    taints: tuple[Taint, ...]
    fresh: tuple[bool, ...]
    refused: tuple[str, ...]

    @property
    def message(self) -> str:
        """The refusal as text. Empty if nothing is refused."""
        return f"It is not allowed to set TimeAdded of Taint {quote(','.join(self.refused))}." if self.refused else ""


def submitted(taints: Sequence[Taint], old: Sequence[Taint] | None, *, as_upstream: bool = False) -> Submitted:
    """Set `timeAdded` of the taints that a person submits. Only the system may set it.

    On a create, the `timeAdded` of every taint is the time of the change. On an update, this applies to taints that are
    new or have changed; an unchanged taint keeps its `timeAdded`. The `timeAdded` that the person gives is ignored.

    Args:
        taints: the submitted taints.
        old: the cluster's present taints. None on a create.
        as_upstream: whether to behave like OCM's webhook: an update is refused if a `timeAdded` differs from the
            expected one; an unchanged taint must repeat its own; and a taint is compared with the first existing one of
            its key.
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
