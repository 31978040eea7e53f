"""The taints of a target as a bridge writes them: one list, which others write, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from moorage.bridge.ownership import TAINTS_ANNOTATION, Identity, identity_of, noted
from moorage_schemas.taint import TaintRecord

JsonObject = dict[str, Any]


class SeenTarget(Protocol):
    """A target as it was read."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def version(self) -> str:
        """Its resource version."""

    @property
    def taints(self) -> Sequence[Mapping[str, Any]]:
        """All of its taints."""

    @property
    def own_taints(self) -> frozenset[Identity]:
        """Those that a bridge has noted as its own."""


def taints_patch(
    target: SeenTarget, wanted: Iterable[TaintRecord], *, managed: frozenset[Identity]
) -> JsonObject | None:
    """Return the merge patch with which a target gets the taints of Moorage. None if it has them.

    The list is written whole and with the version that it was read at, because the API server keeps it as one value.
    The taints of others stay as they are and where they are.

    Args:
        target: as it was read.
        wanted: the taints that Moorage gives it.
        managed: the taints on it that may be removed.
    """
    others = [one for one in target.taints if identity_of(one) not in managed]
    theirs = {identity_of(one) for one in others}
    mine = [_written(taint) for taint in wanted if taint.identity not in theirs]
    present = [one for one in target.taints if identity_of(one) in managed]
    if _compared(mine) == _compared(present) and target.own_taints == {identity_of(one) for one in mine}:
        return None
    return {
        "metadata": {
            "uid": target.uid,
            "resourceVersion": target.version,
            "annotations": {TAINTS_ANNOTATION: noted(mine)},
        },
        "spec": {"taints": [*others, *mine]},
    }


def _written(taint: TaintRecord) -> JsonObject:
    value = {"value": taint.value} if taint.value else {}
    added = taint.time_added.strftime("%Y-%m-%dT%H:%M:%SZ")  # the API server stores whole seconds
    return {"key": taint.key, **value, "effect": taint.effect, "timeAdded": added}


def _compared(taints: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[str, str]]:
    """What has to be equal of taints: their values and times, in any order."""
    return {identity_of(one): (str(one.get("value") or ""), str(one.get("timeAdded") or "")) for one in taints}
