"""Conditions follow the reports in their order and with their times, and no reporting source is called silent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.chaos.seeded.checker.agreement import FOLLOWS_SILENCE, graces_of
from tests.chaos.seeded.checker.desired_taints import resource_key, uid_of
from tests.chaos.seeded.checker.parsed_history import EPSILON, Run, Seen, name_of, when
from tests.chaos.seeded.checker.violations import Violation

_INGEST: Final = "moorage/condition-ingest"

_CLOCKS: Final = 1.0
"""Seconds by which the clock of who reports may be behind that of who declares."""


def conditions_go_forward(run: Run) -> Iterator[Violation]:
    """A condition never goes back to an older report of its target."""
    for topic in ("conditions", "workload-conditions"):
        for _, records in run.keys(topic):
            last: dict[str, float] = {}
            for seen in records:
                if seen.gone:
                    last.clear()
                    continue
                uid, heard = str(seen.data.get("targetUid", "")), when(seen.data, "lastHeartbeatTime")
                if heard is None or seen.source != _INGEST:
                    continue
                if heard < last.get(uid, heard) - EPSILON:
                    message = f"goes back by {last[uid] - heard:.6f} s to an older report"
                    yield Violation("conditions_go_forward", seen.where, message)
                last[uid] = max(heard, last.get(uid, heard))


def conditions_begin_with_their_report(run: Run) -> Iterator[Violation]:
    """A condition is accepted, and a status begins, no earlier than the report that says so was written.

    By the clock of condition-ingest, so but for the skew. Whatever is counted from there (how long a condition has
    lasted, when a toleration ends) would otherwise end early.
    """
    if not run.history.exact:
        return
    written: dict[str, float] = {}
    for seen in run.of("condition-reports"):
        written.setdefault(seen.id, seen.entry.appended)
    for _, records in run.keys("conditions"):
        before: dict[str, object] = {}
        for seen in records:
            if seen.gone:
                before = {}
                continue
            report = written.get(str(seen.data.get("reportId") or ""))
            began, accepted = when(seen.data, "statusSince"), when(seen.data, "acceptedTime")
            now: dict[str, object] = {name: seen.data.get(name) for name in ("targetUid", "status", "statusSince")}
            times = [accepted, began if now != before else None]
            early = [time for time in times if time is not None and report is not None]
            if report is not None and early and min(early) < report - run.skew - EPSILON:
                message = f"counts from {report - min(early):.6f} s before its report"
                yield Violation("conditions_begin_with_their_report", seen.where, message)
            before = now


def reports_count_for_their_target(run: Run) -> Iterator[Violation]:
    """No report counts for a target that was declared only after the report was written.

    Declarations are timed by the second, and clocks may differ by another one.
    """
    if not run.history.exact:
        return
    written: dict[str, float] = {}
    for seen in run.of("condition-reports"):
        written.setdefault(seen.id, seen.entry.appended)
    began: dict[tuple[str, str], float] = {}
    for seen in run.of("resources"):
        time = when((seen.data.get("object") or {}).get("metadata") or {}, "creationTimestamp")
        if time is not None:
            began.setdefault((seen.key, uid_of(seen)), time)
    for topic in ("conditions", "workload-conditions"):
        for seen in run.of(topic):
            target = seen.data.get("target")
            report = written.get(str(seen.data.get("reportId") or ""))
            if report is None or not isinstance(target, dict):
                continue
            since = began.get((resource_key(name_of(target)), str(seen.data.get("targetUid", ""))))
            if since is not None and report < since - _CLOCKS - run.skew - EPSILON:
                message = f"its report was written {since - report:.3f} s before its target was declared"
                yield Violation("reports_count_for_their_target", seen.where, message)


def nobody_is_refused_for_nothing(run: Run) -> Iterator[Violation]:
    """No report is refused as one on an unknown target when its target was declared before the report was written."""
    for seen in run.of("dead-letters"):
        if seen.data.get("reason") != "UnknownTarget" or not run.history.exact:
            continue
        place = (str(seen.data["topic"]), int(seen.data["partition"]), int(seen.data["offset"]))
        report = run.places.get(place)
        if report is None or not isinstance(report.data.get("target"), dict):
            continue
        declared = run.records("resources", resource_key(name_of(report.data["target"])))
        known = [one for one in declared if one.entry.committed <= report.entry.appended]
        since = [one for one in declared if one.order < seen.order and one not in known]
        if known and not known[-1].gone and not any(one.gone for one in since):
            yield Violation("nobody_is_refused_for_nothing", seen.where, f"{known[-1].where} had declared its target")


def nobody_is_silenced_who_spoke(run: Run) -> Iterator[Violation]:
    """A condition becomes Unknown for silence only if nothing was waiting of its source when its timer fired.

    Whatever was written before then is taken up first. What came within the grace period (but for the skew) says that
    the source is not silent. A chain asks itself to look again in the transaction in which its timer fires, so a report
    can lie between the two.
    """
    if not run.history.exact:
        return
    spoke = _spoke(run)
    questions = {seen.id: seen for seen in run.of("condition-reports") if seen.source == _INGEST}
    fired: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for seen in run.of("timer-fired"):
        if seen.data.get("owner") == "condition-ingest":
            fired[name_of(seen.data["target"]), str(seen.data.get("subject"))].append(seen)
    for seen in run.of("conditions"):
        if seen.gone or seen.data.get("reportId") or seen.source != _INGEST:
            continue
        target, source = seen.key.partition("|")[0], str(seen.data.get("source", ""))
        grace = min(filter(None, graces_of(run, target, source)), default=0.0)
        if grace and seen.key.partition("|")[2] not in FOLLOWS_SILENCE:
            yield Violation("nobody_is_silenced_who_spoke", seen.where, "this condition needs no heartbeat")
        timers = [one for one in fired[target, source] if run.precedes(one, seen)]
        if not grace or not timers:
            continue
        question = questions.get(seen.entry.headers.get("ce_causationid", ""), timers[-1])
        asked = min(timers[-1].entry.appended, question.entry.appended)
        for one in spoke[target, source]:
            if seen.decided - grace + 2 * run.skew + EPSILON < one.entry.appended < asked:
                message = f"{one.where} came {seen.decided - one.entry.appended:.3f} s before"
                yield Violation("nobody_is_silenced_who_spoke", seen.where, message)
                break


def _spoke(run: Run) -> dict[tuple[str, str], list[Seen]]:
    """The reports that counted, by target and source.

    A report counted if a condition names it. One that no condition names is a heartbeat that was not recorded, if it
    was not refused and is newer than all before it.
    """
    spoke: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    counted = {str(seen.data.get("reportId") or "") for seen in run.of("conditions")}
    refused = {
        (str(seen.data["topic"]), int(seen.data["partition"]), int(seen.data["offset"]))
        for seen in run.of("dead-letters")
        if "offset" in seen.data
    }
    newest: dict[tuple[str, str], float] = {}
    for seen in run.of("condition-reports"):
        observed = when(seen.data, "observedTime")
        if not isinstance(seen.data.get("target"), dict) or seen.data.get("workload") is not None or observed is None:
            continue
        if seen.source == _INGEST:
            continue  # it asks itself to look again
        about = (name_of(seen.data["target"]), str(seen.data.get("type")))
        place = (seen.entry.topic, seen.entry.partition, seen.entry.offset)
        if seen.id in counted or (place not in refused and observed > newest.get(about, 0.0)):
            spoke[about[0], str(seen.data.get("source") or seen.source)].append(seen)
        if place not in refused:
            newest[about] = max(observed, newest.get(about, 0.0))
    return spoke
