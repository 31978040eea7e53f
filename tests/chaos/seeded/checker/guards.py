"""Pauses and budgets: which evictions each applies to, by what was declared when a decision was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.chaos.seeded.checker.matching import selects
from tests.chaos.seeded.checker.parsed_history import Json, Run, Seen, name_of

KINDS = ("EvictionPause", "EvictionBudget", "PodDisruptionBudget")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom an eviction is about; keys, as everywhere."""

    workload: str
    owner: str
    target: str
    zone: str
    labels: Mapping[str, str]

    @property
    def namespace(self) -> str:
        """The workload's namespace."""
        return self.workload.split("/")[1]


def subject_of(run: Run, decision: Seen, workload: str, target: str, generation: int) -> Subject | None:
    """Whom an eviction is about, by its binding and its target's zone; None when it was never bound."""
    place = f"{workload}|{target}"
    bound = [
        one
        for one in run.records("bindings", place)
        if not one.gone and one.data["generation"] == generation and run.precedes(one, decision)
    ]
    if not bound:
        return None
    # Labels change. What became readable only while the decision was written need not have been known.
    known = {one.order for one in run.states("bindings", place, decision) if one is not None}
    bound = [one for one in bound if one.order in known] or bound
    tainted = [one for one in run.states("taints", target, decision) if one is not None]
    return Subject(
        workload,
        name_of(bound[-1].data["owner"]),
        target,
        tainted[-1].data.get("zone", "") if tainted else "",
        bound[-1].data.get("labels") or {},
    )


def in_scope(scope: Json, subject: Subject) -> bool:
    """Whether a scope holds an eviction: all of its parts that are there must."""
    workloads, selector = scope.get("workloads"), scope.get("selector")
    return (
        (scope.get("namespaces") is None or subject.namespace in scope["namespaces"])
        and (scope.get("zones") is None or subject.zone in scope["zones"])
        and (scope.get("targets") is None or subject.target in scope["targets"])
        and (workloads is None or subject.workload in workloads or subject.owner in workloads)
        and (selector is None or selects(selector, subject.labels))
    )


def concerns(guard: Seen, subject: Subject) -> bool:
    """Whether a guard may hold an eviction."""
    obj = guard.data["object"]
    spec = obj.get("spec") or {}
    if obj["kind"] == "PodDisruptionBudget":
        own = (obj.get("metadata") or {}).get("namespace")
        pod = subject.workload.startswith("Pod/")
        return pod and own == subject.namespace and selects(spec.get("selector"), subject.labels)
    return in_scope(spec.get("scope") or {}, subject)


def in_force(run: Run, decision: Seen, subject: Subject, *, kind: str | None = None) -> Iterator[Seen]:
    """The guards of a kind (None for all) that concerned an eviction and that whoever decided must have known of.

    They were declared, and the same, all the time from when he must have known to when his record could be read.
    """
    for key, _ in run.keys("resources"):
        if key.partition("/")[0] not in ((kind,) if kind is not None else KINDS):
            continue
        states = run.states("resources", key, decision, within=run.allowances.follow)
        first = states[0]
        if len(states) == 1 and first is not None and not first.gone and concerns(first, subject):
            yield first


def guard_name(guard: Seen) -> str:
    """As in `heldBy`: `EvictionPause/all`, `PodDisruptionBudget/shop/web`."""
    return guard.key.replace("//", "/")


def share(amount: object, base: int) -> int:
    """A number, or a percentage of something, of which a part of one counts as one."""
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-int(amount[:-1]) * base // 100)
    return int(str(amount))
