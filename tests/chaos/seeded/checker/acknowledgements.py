"""What deployers say of evictions counts, for the very binding that they name and for no other."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.seeded.checker.desired_taints import resource_key, uid_of
from tests.chaos.seeded.checker.parsed_history import Run, Seen, name_of, waits_for_its_deployer
from tests.chaos.seeded.checker.violations import Violation


def what_is_acknowledged_was_reported(run: Run) -> Iterator[Violation]:
    """An eviction is acknowledged or escalated only by a report about its own binding that was there before."""
    if not run.history.exact:
        return
    for key, records in run.keys("evictions"):
        for seen in records:
            if seen.gone or seen.data.get("state") != "Requested":
                continue
            for field, status in (("acknowledged", "True"), ("escalated", "False")):
                if seen.data.get(field) and not any(_says(one, seen, status) for one in _reports(run, key, seen)):
                    yield Violation("what_is_acknowledged_was_reported", seen.where, f"{field}, and nobody has said so")


def what_waits_is_not_ended(run: Run) -> Iterator[Violation]:
    """The binding of a bare pod whose deployer acknowledges ends with that, with the pod, or with its node."""
    if not run.history.exact:
        return
    for key, records in run.keys("evictions"):
        workload, target, _ = key.split("|")
        for seen in records:
            if seen.gone or seen.data.get("state") != "Completed" or seen.data.get("acknowledged"):
                continue
            if not seen.data.get("deployer") or name_of(seen.data["owner"]) != workload:
                continue
            uid = str(seen.data.get("workloadUid", ""))
            gone = any(
                one.gone or (one.key == workload and uid_of(one) != uid)
                for about in (workload, resource_key(target))
                for one in run.records("resources", about)
                if run.precedes(one, seen)
            )
            if not gone:
                yield Violation("what_waits_is_not_ended", seen.where, "its deployer has not acknowledged")


def what_was_reported_is_acknowledged(run: Run) -> Iterator[Violation]:
    """After quiet nothing waits whose deployer has reported that it is gone."""
    if not (run.history.quiet and run.runs("eviction")):
        return
    for key, task in run.table("evictions").items():
        if not waits_for_its_deployer(task):
            continue
        report = run.table("workload-conditions").get(f"{key.rpartition('|')[0]}|Evicted")
        if report is not None and _says(report, task, "True"):
            yield Violation("what_was_reported_is_acknowledged", task.where, f"{report.where} says that it is gone")


def _reports(run: Run, key: str, seen: Seen) -> list[Seen]:
    condition = f"{key.rpartition('|')[0]}|Evicted"
    return [one for one in run.records("workload-conditions", condition) if run.precedes(one, seen) and not one.gone]


def _says(report: Seen, task: Seen, status: str) -> bool:
    named = (report.data.get("workloadUid"), report.data.get("bindingGeneration"))
    same = named == (task.data.get("workloadUid"), task.data.get("generation"))
    return same and report.data.get("status") == status
