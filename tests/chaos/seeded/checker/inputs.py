"""No accepted input is lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from tests.chaos.seeded.checker.agreement import graces_of
from tests.chaos.seeded.checker.desired_taints import resource_key, uid_of
from tests.chaos.seeded.checker.parsed_history import EPSILON, Run, Seen, name_of, when
from tests.chaos.seeded.checker.violations import Violation


def what_was_acknowledged_is_there(run: Run) -> Iterator[Violation]:
    """Every record whose writing was acknowledged can be read.

    Of a real run only what was written within the retention of its topic.
    """
    for topic, partition, offset in run.told:
        if run.history.exact and (topic, partition, offset) not in run.places:
            yield Violation("what_was_acknowledged_is_there", f"{topic}/{partition}@{offset}", "is not in the topic")


def no_service_fails(run: Run) -> Iterator[Violation]:
    """No record makes a service fail: what is refused is refused for what is wrong with it."""
    for seen in run.of("dead-letters"):
        if seen.data.get("rule") == "must not make the service fail":
            yield Violation("no_service_fails", seen.where, str(seen.data.get("message")))


def no_report_is_lost(run: Run) -> Iterator[Violation]:
    """After quiet every acknowledged report has become a condition at least as new, or a dead letter.

    Or it counted already (one with its id came before), or its target was deleted since.
    """
    if not (run.history.quiet and run.runs("condition-ingest")):
        return
    refused = {
        (str(seen.data["topic"]), int(seen.data["partition"]), int(seen.data["offset"]))
        for seen in run.of("dead-letters")
        if "offset" in seen.data
    }
    copies: dict[str, list[Seen]] = defaultdict(list)
    for seen in run.of("condition-reports"):
        copies[seen.id].append(seen)  # one that came to the wrong partition is sent on under its id
    for seen in run.of("condition-reports"):
        place = (seen.entry.topic, seen.entry.partition, seen.entry.offset)
        if place not in run.told:
            continue
        same = copies[seen.id] if seen.id else [seen]
        if any((one.entry.topic, one.entry.partition, one.entry.offset) in refused for one in same):
            continue
        observed, target = when(seen.data, "observedTime"), seen.data.get("target")
        if observed is None or not isinstance(target, dict):
            yield Violation("no_report_is_lost", seen.where, "is no report, and was not refused")
            continue
        if same[0].order < seen.order and same[0].data != seen.data:
            continue  # another report used its id before
        if not _counted(run, seen, observed, name_of(target)):
            yield Violation("no_report_is_lost", seen.where, "is in no condition and in no dead letter")


def _counted(run: Run, seen: Seen, observed: float, target: str) -> bool:
    """Whether a report is in a condition of the target that is declared, or its target is gone.

    A report that changes nothing may be in none, because not all of them are recorded. Those by hand and on workloads
    are. And a heartbeat may go with the conditions of the target before, if its source has a grace period: it will
    speak again.
    """
    workload, name = seen.data.get("workload"), seen.data["type"]
    topic, key = "conditions", f"{target}|{name}"
    if workload is not None:
        topic, key = "workload-conditions", f"{name_of(workload)}|{target}|{name}"
    declared = run.records("resources", resource_key(target))
    if any(one.gone and one.order > seen.order for one in declared):
        return True
    uid = uid_of(declared[-1]) if declared and run.history.exact else None
    earlier, own = "", False
    for one in run.records(topic, key):
        if one.gone:
            continue
        if one.data.get("reason") == "HeartbeatStopped":
            # Silence says nothing of reports, but it names the last heartbeat, which may be in no other record.
            last = when(one.data, "lastHeartbeatTime")
            if last is not None and last > observed + EPSILON and (uid is None or one.data.get("targetUid") == uid):
                return True
            continue
        if _supersedes(one, seen):
            return True
        heard = when(one.data, "lastHeartbeatTime")
        if heard is None or heard < observed - EPSILON:
            earlier, own = str(one.data.get("status", "")), uid is None or one.data.get("targetUid") in {"", uid}
        elif uid is None or one.data.get("targetUid") in {"", uid}:
            return True
    source = str(seen.data.get("source") or seen.source)
    beats = workload is None and not source.startswith("cli/") and seen.data.get("status") == earlier
    return beats and (own or any(graces_of(run, target, source)))


def _supersedes(one: Seen, report: Seen) -> bool:
    """Whether a condition is about a later binding of the same workload than a report."""
    uid = report.data.get("workloadUid")
    same = bool(uid) and one.data.get("workloadUid") == uid
    return same and int(one.data.get("bindingGeneration", 0)) > int(report.data.get("bindingGeneration", 0))


def no_edit_is_lost(run: Run) -> Iterator[Violation]:
    """After quiet every acknowledged edit of a target's taints is worked in: `wishesApplied` has reached it."""
    if not (run.history.quiet and run.runs("taint-manager")):
        return
    tainted = run.table("taints")
    for key, resource in run.table("resources").items():
        kind, _, rest = key.partition("/")
        if kind not in {"Node", "Cluster", "ManagedCluster"}:
            continue
        place = (resource.entry.topic, resource.entry.partition, resource.entry.offset)
        newest = max((wish["generation"] for wish in resource.data.get("wishes") or ()), default=0)
        if place not in run.told or not newest:
            continue
        found = tainted.get(f"{kind}/{rest.partition('/')[2]}")
        applied = found.data.get("wishesApplied", 0) if found is not None else 0
        if applied < newest:
            yield Violation("no_edit_is_lost", resource.where, f"wish {newest} is not worked in, only {applied} is")


def nothing_is_done_twice(run: Run) -> Iterator[Violation]:
    """No event is written twice: its id follows from what caused it, so the second came of the same cause again.

    What comes from outside may be repeated. A report that has counted is not refused as well.
    """
    if not run.history.exact:
        return
    yield from _counted_and_refused(run)
    for topic in _ONCE:
        known: dict[tuple[str, str], Seen] = {}
        for seen in run.of(topic):
            place = (seen.id, seen.key)
            if seen.id and place in known and seen.source.startswith("moorage/"):
                yield Violation("nothing_is_done_twice", seen.where, f"was written before as {known[place].where}")
            known.setdefault(place, seen)


def _counted_and_refused(run: Run) -> Iterator[Violation]:
    written = Counter(seen.id for seen in run.of("condition-reports"))
    counted: dict[str, Seen] = {}
    for topic in ("conditions", "workload-conditions"):
        for seen in run.of(topic):
            counted.setdefault(str(seen.data.get("reportId") or ""), seen)
    for seen in run.of("dead-letters"):
        if seen.data.get("topic") != "condition-reports" or "offset" not in seen.data:
            continue
        report = run.places.get(("condition-reports", int(seen.data["partition"]), int(seen.data["offset"])))
        if report is not None and written[report.id] == 1 and report.id in counted:
            message = f"refuses {report.where}, which has become {counted[report.id].where}"
            yield Violation("nothing_is_done_twice", seen.where, message)


_ONCE: Final = (
    "conditions",
    "workload-conditions",
    "taints",
    "zone-members",
    "zones",
    "zone-grants",
    "timer-fired",
    "placements",
    "bindings",
    "dead-letters",
    "evictions",
    "timers",
    "eviction-asks",
    "eviction-answers",
    "eviction-slots",
    "budgets",
)
