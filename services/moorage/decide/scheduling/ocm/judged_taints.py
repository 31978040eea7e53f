"""Explains how the taints of a managed cluster affect a placement."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.plugin import PlacementRequest
from moorage.decide.taints.dialects.ocm import NO_SELECT, NO_SELECT_IF_NEW, OCM
from moorage.decide.taints.matching import tolerates
from moorage.decide.taints.tolerations import JudgedTaint, near_misses, toleration_text
from moorage_schemas.taint import Taint, Toleration
from moorage_schemas.times import format_time


def judge_taints(request: PlacementRequest, fleet: ManagedFleet, cluster: str) -> tuple[JudgedTaint, ...]:
    """Return each taint of a cluster with the toleration that counts: the first that matches and has not ended."""
    row = fleet.row(cluster)
    decided = bool(np.any(request.decided == row))
    return tuple(_judge(taint, request, decided=decided) for taint in fleet.at(row).taints)


def _judge(taint: Taint, request: PlacementRequest, *, decided: bool) -> JudgedTaint:
    keeps_away = taint.effect in OCM.filtering and not (decided and taint.effect == NO_SELECT_IF_NEW)
    ended: list[str] = []
    for one in request.terms.tolerations:
        if not tolerates(one, taint):
            continue
        end = _end(taint, one)
        if end is None or end > request.now:
            return JudgedTaint(taint, keeps_away, taint.effect == NO_SELECT, one, end)
        ended.append(f"{{{toleration_text(one)}}} ended at {format_time(end)}")
    near = (*ended, *near_misses(taint, request.terms.tolerations))
    return JudgedTaint(taint, keeps_away, taint.effect == NO_SELECT, None, None, near)


def _end(taint: Taint, toleration: Toleration) -> datetime | None:
    """Return when a tolerated time ends. None means never. A taint without `timeAdded` counts as added long ago."""
    if toleration.toleration_seconds is None or taint.effect == NO_SELECT_IF_NEW:
        return None
    if taint.time_added is None:
        return datetime.min.replace(tzinfo=UTC)
    try:
        return taint.time_added + timedelta(seconds=toleration.toleration_seconds)
    except OverflowError:
        return None if toleration.toleration_seconds > 0 else datetime.min.replace(tzinfo=UTC)
