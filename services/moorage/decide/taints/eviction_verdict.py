"""When running work has to leave a target because of its taints (docs/domain.md, "Deadlines"). Verdicts are types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.decide.taints.dialects.kubernetes import KUBERNETES, EffectRules
from moorage.decide.taints.matching import first_match
from moorage_schemas.taint import Taint, Toleration
from moorage_schemas.times import format_time


@dataclass(frozen=True, slots=True)
class Tolerated:
    """A taint that evicts, and the first toleration that matches it, which is the one that counts."""

    taint: Taint
    toleration: Toleration


@dataclass(frozen=True, slots=True)
class EvictNow:
    """The work has to leave at once.

    Attributes:
        taints: the untolerated taints, or else those that are tolerated for zero seconds or less.
        tolerated: the pairs whose `tolerationSeconds` is zero or less. Empty if a taint is untolerated.
    """

    taints: tuple[Taint, ...]
    tolerated: tuple[Tolerated, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class EvictAt:
    """The work has to leave at `deadline`, unless the taints or tolerations change before then.

    Attributes:
        deadline: the earliest end of a tolerated time, UTC. If it has passed, the work has to leave now.
        taint: the taint that sets the deadline. If several set the same deadline, the first.
        toleration: the toleration that sets the deadline.
    """

    deadline: datetime
    taint: Taint
    toleration: Toleration
    reason: str


@dataclass(frozen=True, slots=True)
class Keep:
    """The work stays.

    Attributes:
        tolerated: the taints that evict, each with the toleration that tolerates it forever. Empty if no taint evicts.
    """

    tolerated: tuple[Tolerated, ...]
    reason: str


Verdict = EvictNow | EvictAt | Keep


def taint_text(taint: Taint) -> str:
    """Return the taint as `kubectl taint` writes it: `key=value:effect`, `key:effect` or `key`."""
    value = f"={taint.value}" if taint.value else ""
    effect = f":{taint.effect}" if taint.effect or taint.value else ""
    return f"{taint.key}{value}{effect}"


def deadline_of(pair: Tolerated, *, seen_at: datetime | None = None) -> datetime | None:
    """Return when the tolerated time of a taint ends. None if it has no limit.

    The time counts from the taint's `timeAdded`, so neither a restart nor a late evaluation extends it. A limit after
    the year 9999 counts as no limit.

    Raises:
        ValueError: the taint has no `timeAdded`, and `seen_at` is not given.
    """
    seconds = pair.toleration.toleration_seconds
    if seconds is None:
        return None
    start = pair.taint.time_added or seen_at
    if start is None:
        raise ValueError(
            f"timeAdded: Required value: taint {taint_text(pair.taint)} is tolerated for {seconds} s, "
            "since an unknown time"
        )
    try:
        return start + timedelta(seconds=max(seconds, 0))
    except OverflowError:
        return None


def _at_once(toleration: Toleration) -> bool:
    return toleration.toleration_seconds is not None and toleration.toleration_seconds <= 0


def _texts(taints: Iterable[Taint]) -> str:
    return ", ".join(map(taint_text, taints))


def verdict(
    taints: Sequence[Taint],
    tolerations: Sequence[Toleration],
    *,
    seen_at: datetime | None = None,
    dialect: EffectRules = KUBERNETES,
    comparison: bool = True,
) -> Verdict:
    """Return the effect of the target's taints on work that runs there.

    Only taints with an evicting effect count. If one of them is untolerated, the work has to leave now. Otherwise the
    first toleration that matches a taint counts for it: zero or negative seconds mean now, positive seconds mean a
    deadline of `timeAdded` + seconds, and no seconds mean forever. The earliest deadline counts. The verdict does not
    depend on the present time, so it is computed again only when taints or tolerations change.

    Args:
        taints: the target's taints.
        tolerations: the workload's tolerations, in their order.
        seen_at: the start of the tolerated time for a taint without `timeAdded`: the time of the event that brought the
            taint. The taint-manager sets `timeAdded` on every taint, so only taints from elsewhere lack it.
        dialect: defines which effects evict.
        comparison: whether `Gt` and `Lt` are allowed.

    Raises:
        ValueError: a deadline depends on a taint without `timeAdded`, and `seen_at` is not given.
    """
    evicting = [taint for taint in taints if taint.effect in dialect.evicting]
    pairs = []
    bare = []
    for taint in evicting:
        toleration = first_match(taint, tolerations, comparison=comparison)
        if toleration is None:
            bare.append(taint)
        else:
            pairs.append(Tolerated(taint, toleration))
    if bare:
        return EvictNow(tuple(bare), (), f"untolerated taint {_texts(bare)}")
    tolerated = tuple(pairs)
    ended = tuple(pair for pair in tolerated if _at_once(pair.toleration))
    if ended:
        hit = tuple(pair.taint for pair in ended)
        return EvictNow(hit, ended, f"taint {_texts(hit)} is tolerated for 0 s")
    first: tuple[datetime, Tolerated] | None = None
    for pair in tolerated:
        deadline = deadline_of(pair, seen_at=seen_at)
        if deadline is not None and (first is None or deadline < first[0]):
            first = (deadline, pair)
    if first is not None:
        deadline, pair = first
        reason = (
            f"taint {taint_text(pair.taint)} is tolerated for {pair.toleration.toleration_seconds} s, "
            f"until {format_time(deadline)}"
        )
        return EvictAt(deadline, pair.taint, pair.toleration, reason)
    if tolerated:
        return Keep(tolerated, f"taint {_texts(pair.taint for pair in tolerated)} is tolerated without a time limit")
    return Keep((), "no taint evicts")
