"""TaintPolicies are followed: judged by what was declared and accepted, not by what was made of it.

The policies of stories have keys of their own, which nobody else touches. One condition adds the taints while it is
True, and removes them while it is False.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.chaos.seeded.checker.desired_taints import uid_of
from tests.chaos.seeded.checker.parsed_history import EPSILON, Json, Run, Seen, when
from tests.chaos.seeded.checker.violations import Violation

_PREFIX = "TaintPolicy//"


def taint_policies_are_followed(run: Run) -> Iterator[Violation]:
    """After quiet each target that a policy selects has its taints exactly while the condition is True.

    What is Unknown, not reported, or has not lasted for the hold, is not judged. A target that no version of a policy
    has ever selected has none of its taints.
    """
    if not (run.history.quiet and run.runs("taint-manager")):
        return
    name = taint_policies_are_followed.__name__
    targets = {
        f"{kind}/{rest.rpartition('/')[2]}": resource
        for key, resource in run.table("resources").items()
        for kind, _, rest in [key.partition("/")]
        if kind in {"Node", "Cluster", "ManagedCluster"}
    }
    tainted = run.table("taints")
    for key, versions in run.keys("resources"):
        if not key.startswith(_PREFIX):
            continue
        last = versions[-1]
        ever = [_spec(one) for one in versions if not one.gone]
        for target, resource in targets.items():
            record = tainted.get(target)
            carried = _carried(record, resource) if record is not None else {}
            there = [carried[one["key"]] for spec in ever for one in spec["taints"] if one["key"] in carried]
            if there and not any(_selects(spec, target) for spec in ever):
                yield Violation(name, target, f"{there[0]['key']} is there, and {key} has never selected the target")
            if last.gone or not _selects(ever[-1], target):
                continue
            yield from _judged(run, ever, target, resource, carried)


def _judged(
    run: Run, ever: Sequence[Json], target: str, resource: Seen, carried: dict[str, Json]
) -> Iterator[Violation]:
    name, spec = taint_policies_are_followed.__name__, ever[-1]
    (term,) = spec["addOnConditions"]
    records = run.records("conditions", f"{target}|{term['conditionType']}")
    condition = records[-1] if records else None
    if condition is None or condition.gone or condition.data.get("targetUid", "") not in {"", uid_of(resource)}:
        return
    since = when(condition.data, "statusSince")
    status = condition.data["status"]
    if status == "Unknown" or since is None:
        return
    hold = max(_holds(run, spec, "add" if status == "True" else "remove"))
    lasted = since + hold + run.skew + run.allowances.lateness < run.history.ended
    least = min(value for one in ever for value in _holds(run, one, "add"))
    for one in spec["taints"]:
        found = carried.get(one["key"])
        if status == "False":
            if found is not None and lasted:
                yield Violation(name, target, f"{one['key']} is there, and {term['conditionType']} is False")
        elif found is None:
            if lasted:
                yield Violation(name, target, f"{one['key']} is missing, and {term['conditionType']} is True")
        else:
            added = when(found, "timeAdded")
            if added is not None and since <= added < since + least - EPSILON:
                yield Violation(name, target, f"{one['key']} was added after less than {least:g} s")


def _spec(policy: Seen) -> Json:
    spec: Json = policy.data["object"]["spec"]
    return spec


def _selects(spec: Json, target: str) -> bool:
    kind, _, name = target.partition("/")
    chosen = spec["targets"]
    return (
        chosen["kind"] == kind and name in (chosen.get("names") or [name]) and name not in (chosen.get("exclude") or [])
    )


def _carried(record: Seen, resource: Seen) -> dict[str, Json]:
    """The taints of a target's present life, by key."""
    if record.data.get("targetUid", "") != uid_of(resource):
        return {}
    return {one["key"]: one for one in record.data.get("taints") or ()}


def _holds(run: Run, spec: Json, word: str) -> list[float]:
    """All values that a hold of a policy may have had: `add` or `remove`."""
    own = spec.get(f"{word}Hold")
    return run.settings(f"taint_{word}_hold", 0) if own is None else [float(own.removesuffix("s"))]


def is_of_a_policy(run: Run, key: str) -> bool:
    """Whether a taint has a key that some TaintPolicy of the story adds."""
    return any(
        one["key"] == key
        for name, versions in run.keys("resources")
        if name.startswith(_PREFIX)
        for version in versions
        if not version.gone
        for one in _spec(version)["taints"]
    )
