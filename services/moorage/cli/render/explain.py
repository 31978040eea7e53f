"""An explanation as lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from moorage.cli.render.cells import NONE
from moorage.cli.render.describe import pair, table
from moorage.cli.render.durations import human, to_the_second
from moorage.cli.render.events import words
from moorage.core.scheduling.framework.verdicts import TargetVerdict
from moorage.simulation.explain.chain import Chain
from moorage.simulation.explain.explanation import BEST, CHOSEN, Explanation, Summary, Target, Until
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.times import format_time


def explanation(told: Explanation, *, closely: bool = False) -> Iterator[str]:
    """All of an explanation.

    Args:
        told: the explanation.
        closely: tell each filter's and prioritizer's verdict on the targets that are shown, not one line for each.
    """
    yield from map(to_the_second, _explanation(told, closely=closely))


def _explanation(told: Explanation, *, closely: bool) -> Iterator[str]:
    yield from _decision(told)
    yield ""
    yield from _fleet(told)
    if closely:
        for one in told.targets:
            yield ""
            yield from _closely(told, one)
    elif told.targets:
        yield ""
        yield from _targets(told)
    if told.until:
        yield ""
        yield from _untils(told.until, told.at)
    for chain in told.chains:
        yield ""
        yield from _chain(chain)


def summary(told: Summary, *, every: bool = False) -> Iterator[str]:
    """The pods of a controller, one a line: those that wait or are to leave first, and not too many.

    Args:
        told: the pods.
        every: show all of them.
    """
    yield pair("Owner", told.owner)
    counts = Counter(row.record.state.value for row in told.rows)
    yield pair("Pods", ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    rows = []
    first = sorted(told.rows, key=lambda row: (row.record.target is not None, row.until is None, row.workload))
    for row in first if every else first[:CHOSEN]:
        until = _until_text(row.until, told.at) if row.until is not None else ""
        why = " ".join(part for part in (row.record.reason, row.record.message) if part)
        rows.append([row.workload.rpartition("/")[2], row.record.state.value, where(row.record), until, why])
    less = f" of {len(first)}, the others with --all" if len(rows) < len(first) else ""
    yield from table(f"Pods ({len(rows)}{less})", ["NAME", "STATE", "NODE", "UNTIL", "WHY"], rows)
    if rows:
        yield f"\nMore of one of them: moorage explain pod {'/'.join(first[0].workload.split('/')[1:])}"


def where(record: WorkloadPlaced) -> str:
    """The targets of a decision, by name."""
    if record.target is not None:
        return record.target.name
    parts = [f"{one.target.name} ({one.replicas})" if one.replicas else one.target.name for one in record.targets]
    return ", ".join(parts) or NONE


def _here(told: Explanation, record: WorkloadPlaced) -> str:
    """Where the workload is by a decision."""
    if record.target is not None or record.targets or not told.here:
        return where(record)
    more = len(told.here) - BEST
    return ", ".join(told.here[:BEST]) + (f" and {more} more" if more > 0 else "")


def _decision(told: Explanation) -> Iterator[str]:
    kind, namespace, name = told.workload.split("/", 2)
    yield pair("Workload", f"{kind} {namespace}/{name}")
    if told.owner:
        yield pair("Made by", told.owner)
    record = told.record
    if record is None:
        yield pair("Decision", "none is written yet")
    else:
        yield pair("State", f"{record.state.value} ({record.reason or 'no reason'})")
        if record.state is not PlacementState.EVICTED:
            yield pair(_kind(told) if record.target is not None else f"{_kind(told)}s", _here(told, record))
        since = human((told.at - record.decided_time).total_seconds())
        yield pair("Decided", f"{format_time(record.decided_time)} ({since} ago), generation {record.generation}")
        if record.message:
            yield pair("Message", record.message)
        if record.previous_target is not None:
            yield pair("Before on", record.previous_target.name)
    for condition in record.conditions if record is not None else ():
        yield pair("Condition", f"{condition.type}={condition.status} ({condition.reason}): {condition.message}")
    for note in told.notes:
        yield pair("Note", note)
    yield pair(
        "Decided now", "the same" if told.agrees else "otherwise: it was decided then, and this is different now"
    )
    for difference in told.differences:
        yield f"  - {difference}"


def _fleet(told: Explanation) -> Iterator[str]:
    where_from = " of its sets" if told.kind_of_target == "ManagedCluster" else ""
    kind = f"{_kind(told).lower()}s{where_from}"
    yield f"As of {format_time(told.at)} {told.fitting} of {told.considered} {kind} fit."
    rows = [[str(one.count), one.filter, one.reason] for one in told.reasons]
    if rows:
        yield from table("Ruled out, each counted once", ["COUNT", "FILTER", "REASON"], rows)


def _targets(told: Explanation) -> Iterator[str]:
    named = list(dict.fromkeys(part.prioritizer for one in told.targets for part in one.verdict.scores))
    weights = {part.prioritizer: part.weight for one in told.targets for part in one.verdict.scores}
    head = ["", _kind(told).upper(), "RANK", "TOTAL", *(f"{by} x{weights[by]}" for by in named), "OUTCOME"]
    rows = [_row(one, named) for one in told.targets]
    less = f", {told.left_out} more with --all" if told.left_out else ""
    yield from table(f"{_kind(told)}s ({len(rows)} shown{less})", head, rows)


def _kind(told: Explanation) -> str:
    """What targets are called in short: `Node`, `Cluster`."""
    return told.kind_of_target.removeprefix("Managed")


def _row(one: Target, named: Iterable[str]) -> list[str]:
    verdict = one.verdict
    scores = {part.prioritizer: str(part.score) for part in verdict.scores}
    return [
        "*" if one.here else "",
        one.name,
        "" if verdict.rank is None else str(verdict.rank),
        "" if verdict.total is None else str(verdict.total),
        *(scores.get(by, "") for by in named),
        one.outcome,
    ]


def _closely(told: Explanation, one: Target) -> Iterator[str]:
    yield pair(_kind(told), one.name)
    yield pair("Outcome", one.outcome)
    rows = []
    for by in one.verdict.filters:
        first, *rest = [*by.reasons, *by.details] or [""]
        rows.append([by.filter, "passes" if by.passed else "RULED OUT", first])
        rows += [["", "", more] for more in rest]
    yield from table("Filters", ["FILTER", "VERDICT", "WHY"], rows)
    yield from _scores(one.verdict)
    acts = {(True, True): "keeps away and evicts", (True, False): "keeps away", (False, True): "evicts"}
    taints = [[str(taint), acts.get((taint.keeps_away, taint.evicts), "only scores")] for taint in one.taints]
    yield from table("Taints", ["TAINT", "EFFECT"], taints)


def _scores(verdict: TargetVerdict) -> Iterator[str]:
    if verdict.rank is None:
        return
    rows = []
    for by in verdict.scores:
        first, *rest = by.details or [""]
        rows.append([by.prioritizer, str(by.score), f"x {by.weight}", str(by.points), first])
        rows += [["", "", "", "", more] for more in rest]
    rows.append(["total", "", "", f"{verdict.total} (rank {verdict.rank})", ""])
    yield from table("Scores", ["PRIORITIZER", "SCORE", "WEIGHT", "POINTS", "WHY"], rows)


def _untils(untils: Iterable[Until], at: datetime) -> Iterator[str]:
    yield "Until when:"
    for one in untils:
        yield f"  - {_until_text(one, at)}"


def _until_text(one: Until, at: datetime) -> str:
    if one.when is None:
        return one.what
    away = (one.when - at).total_seconds()
    left = f"in {human(away)}" if away > 0 else f"{human(-away)} ago" if away < 0 else "now"
    when = format_time(one.when)
    return f"{one.what.removesuffix(f', until {when}')}: {when} ({left})"


def _chain(chain: Chain) -> Iterator[str]:
    yield f"Events behind {chain.about}, the first one first:"
    for step in chain.steps:
        if step.record is None:
            what = ("lost", f"{step.lost}: {step.note}") if step.lost else ("clock", step.note)
            yield f"  {'?':<20}  {what[0]:<19}  {what[1]}"
            continue
        when = to_the_second(format_time(step.time)) if step.time is not None else "?"
        note = f"  [{step.note}]" if step.note else ""
        yield f"  {when:<20}  {step.record.topic.short:<19}  {words(step.record.key, step.record.event)}{note}"
