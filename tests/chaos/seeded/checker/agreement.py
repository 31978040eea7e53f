"""After a quiet time, the topics and the views of every process agree with what the sources require."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tests.chaos.seeded.checker import leaves
from tests.chaos.seeded.checker.desired_taints import (
    AVAILABLE,
    ROWS,
    UNINITIALIZED,
    UNSCHEDULABLE,
    Identity,
    explicit,
    incident_of,
    kind_of,
    of_spec,
    resource_key,
    row_of,
    uid_of,
)
from tests.chaos.seeded.checker.evictions import evicts
from tests.chaos.seeded.checker.guards import concerns, guard_name, subject_of
from tests.chaos.seeded.checker.matching import must_leave
from tests.chaos.seeded.checker.parsed_history import EPSILON, Json, Run, Seen, name_of, when
from tests.chaos.seeded.checker.policies import is_of_a_policy
from tests.chaos.seeded.checker.violations import Violation

_NEVER = 253402300800.0
"""The end of the year 9999: a toleration that ends later has no end."""


FOLLOWS_SILENCE = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}
"""The conditions that become Unknown when their source is silent, and has no grace period of its own."""


def conditions_are_the_last_reports(run: Run) -> Iterator[Violation]:
    """After quiet each condition is what its latest report says, or Unknown because its source has fallen silent.

    A source that was last heard longer ago than the grace period (and the lateness allowed) has fallen silent. It may
    have been heard later than its last record, by what the record says. Where
    single sources have periods of their own, or a lease says it, that is not looked at. What is not declared any more
    has no conditions. Other conditions than `Ready` and the pressures stay as they were.
    """
    if not (run.history.quiet and run.runs("condition-ingest")):
        return
    name = "conditions_are_the_last_reports"
    said = _reported(run)
    resources, table = run.table("resources"), run.table("conditions")
    heard: dict[tuple[str, str], float] = {}
    for key, seen in table.items():
        place = (key.partition("|")[0], str(seen.data.get("source", "")))
        latest = (when(seen.data, "acceptedTime") or 0.0) + seen.data.get("unrecordedHeartbeatsMs", 0) / 1000
        heard[place] = max(heard.get(place, 0.0), latest)
    for key, seen in table.items():
        if seen.source != "moorage/condition-ingest":
            continue
        target, _, kind = key.partition("|")
        source = str(seen.data.get("source", ""))
        grace = graces_of(run, target, source)[-1]
        late = heard[target, source] + grace + run.skew + run.allowances.lateness < run.history.ended
        late = late and kind in FOLLOWS_SILENCE
        if resource_key(target) not in resources:
            yield Violation(name, seen.where, "its target is not declared")
        elif wrong := _misreported(seen, said.get((target, kind), ())):
            yield Violation(name, seen.where, wrong)
        elif (
            seen.data.get("status") != "Unknown" and grace and late
        ):  # silence makes a condition Unknown, and nothing else
            yield Violation(name, seen.where, f"its source {source!r} is silent for more than {grace:g} s")


def _reported(run: Run) -> dict[tuple[str, str], list[Json]]:
    """All that was said of targets themselves, by target and type."""
    said: dict[tuple[str, str], list[Json]] = {}
    for seen in run.of("condition-reports"):
        if isinstance(seen.data.get("target"), dict) and seen.data.get("workload") is None and "type" in seen.data:
            said.setdefault((name_of(seen.data["target"]), seen.data["type"]), []).append(seen.data)
    return said


def _misreported(seen: Seen, said: Sequence[Json]) -> str:
    """What is wrong with a condition, given all reports of it; empty when nothing is."""
    time, status = when(seen.data, "lastHeartbeatTime") or 0.0, seen.data["status"]
    if not seen.data.get("reportId"):
        return "" if status == "Unknown" else f"no report says {status}"
    # Of several at one time the last counts, which repartitioning may have changed: any of them will do.
    same = [one["status"] for one in said if abs((when(one, "observedTime") or 0.0) - time) < EPSILON]
    return "" if status in same else f"is {status}, reported was {same}"


def graces_of(run: Run, target: str, source: str) -> list[float]:
    """For how long a source may be silent, one value after the other; 0 for ever, or where that is not simple."""
    names = {"Node": "node_monitor_grace_period", "Cluster": "cluster_monitor_grace_period"}
    setting = names.get(kind_of(target))
    if setting is None or run.history.settings.get("source_grace_periods") or source.startswith("cli/"):
        return [0.0]
    return run.settings(setting, 40.0)


def taints_are_what_is_asked_for(run: Run) -> Iterator[Violation]:
    """After quiet each declared target carries what its conditions, its spec, people and policies ask for; no more.

    Built-in taints belong to the state: they are there exactly while the condition has the status, whoever brought
    them in; while nothing is known of the condition they may be there or not. The one that evicts from a node comes
    with the grant of its incident, and is away when that is taken back. Policies may add and take away taints of
    clusters at any time of the past, so what they did is not judged. What is not declared has no taints.
    """
    if not (run.history.quiet and run.runs("taint-manager")):
        return
    name = "taints_are_what_is_asked_for"
    resources, tainted = run.table("resources"), run.table("taints")
    for target, seen in tainted.items():
        if seen.source == "moorage/taint-manager" and resource_key(target) not in resources:
            yield Violation(name, seen.where, "its target is not declared")
    for key, resource in resources.items():
        kind, _, rest = key.partition("/")
        target = f"{kind}/{rest.partition('/')[2]}"
        found = tainted.get(target)
        if kind not in ROWS or (found is not None and found.source != "moorage/taint-manager"):
            continue  # what was written by hand is not judged
        carries: dict[Identity, Json] = {}
        if found is not None and found.data.get("targetUid", "") == uid_of(resource):
            carries = {(one["key"], one["effect"]): one for one in found.data.get("taints") or ()}
        must, may = _asked(run, target, resource, found)
        for identity in sorted(must - carries.keys()):
            yield Violation(name, target, f"{identity[0]}:{identity[1]} is missing")
        for identity, taint in sorted(carries.items()):
            if identity not in must | may and not (_own(kind, taint) or _of_policy(run, taint)):
                yield Violation(name, target, f"{identity[0]}:{identity[1]} is there and nothing asks for it")


def _own(kind: str, taint: Json) -> bool:
    """Whether a taint may be there though nothing that is known asks for it.

    A policy has added it to a cluster; or a managed cluster carries a built-in key with a person's own value.
    """
    return (kind == "Cluster" and "policy" in taint["origins"]) or (
        kind == "ManagedCluster" and bool(taint.get("value"))
    )


def _of_policy(run: Run, taint: Json) -> bool:
    """Whether a TaintPolicy has added a taint; `taint_policies_are_followed` judges it."""
    return "policy" in taint["origins"] and is_of_a_policy(run, str(taint["key"]))


def _asked(run: Run, target: str, resource: Seen, tainted: Seen | None) -> tuple[set[Identity], set[Identity]]:
    """What must be there, and what may be."""
    kind, uid = kind_of(target), uid_of(resource)
    must, may = of_spec(resource), {UNINITIALIZED}
    wished = set(explicit(resource))
    must |= {one for one in wished if row_of(kind, one) is None and one not in {UNSCHEDULABLE, UNINITIALIZED}}
    if kind == "Cluster" and run.failover():
        may, must = may | must, set()  # a policy may have taken it away
    for row in ROWS[kind]:
        records = run.records("conditions", f"{target}|{row.condition}")
        last = records[-1] if records else None
        known = last is not None and not last.gone and last.data.get("targetUid", "") in {"", uid}
        for effect in row.effects:
            identity = (row.key, effect)
            if not known or last is None:
                unreported = row.condition == AVAILABLE and row.status == "Unknown"
                (must if unreported and not records else may).add(identity)
                continue
            hold = max(*run.settings("taint_add_hold", 0), *run.settings("taint_remove_hold", 0))
            since = when(last.data, "statusSince")
            if hold and (since is None or since + hold + run.skew + run.allowances.lateness > run.history.ended):
                may.add(identity)
            elif last.data["status"] == row.status:
                gated = kind == "Node" and effect == "NoExecute"
                grant = _grant(run, target, tainted) if gated else True
                if grant is not False:
                    (may if grant is None else must).add(identity)
    return must, may


def _grant(run: Run, target: str, tainted: Seen | None) -> bool | None:
    """The governor's last word on a node's incident; None while it has said nothing."""
    records = run.records("zone-grants", target)
    if not records or records[-1].gone or tainted is None:
        return None
    return bool(records[-1].data["granted"]) if incident_of(records[-1]) == incident_of(tainted) else None


def evictions_are_what_is_due(run: Run) -> Iterator[Violation]:
    """After quiet each binding's eviction is what the taints, its tolerations and the requests say.

    Who must go now is Requested, or Held by something that is there and concerns it; who must go later is Scheduled
    with that deadline; who may stay is neither Scheduled nor Held (Requested stays Requested). Without its binding no
    eviction is open.
    """
    if not (run.history.quiet and run.runs("eviction")):
        return
    name = "evictions_are_what_is_due"
    bound, tainted, tasks = run.table("bindings"), run.table("taints"), run.table("evictions")
    for key, task in tasks.items():
        place, _, generation = key.rpartition("|")
        stands = place in bound and bound[place].data["generation"] == int(generation)
        if not stands and task.data["state"] in {"Scheduled", "Held", "Requested"}:
            yield Violation(name, task.where, f"is {task.data['state']}, and its binding is gone")
        elif task.data["state"] == "Held":
            for why in _unheld(run, task):
                yield Violation(name, task.where, why)
    for key, binding in bound.items():
        target = key.partition("|")[2]
        found, time = tainted.get(target), None
        if evicts(run, target) and found is not None:
            time = must_leave(found.data.get("taints") or (), binding.data.get("tolerations") or ())
        asked = leaves.time_in_the_end(run, key.partition("|")[0], target, binding)
        time = min((one for one in (time, asked) if one is not None), default=None)
        if wrong := _wrong(run, tasks.get(f"{key}|{binding.data['generation']}"), time):
            yield Violation(name, binding.where, wrong)


def timers_are_forgotten(run: Run) -> Iterator[Violation]:
    """After quiet no timer of an eviction is left that is requested, or over."""
    if not (run.history.quiet and run.runs("eviction")):
        return
    tasks = run.table("evictions")
    for key, timer in run.table("timers").items():
        if not key.startswith("evict|") or timer.source != "moorage/eviction":
            continue
        task = tasks.get(key.removeprefix("evict|"))
        over = task is None or task.data["state"] in {"Requested", "Completed"} or _is_ended(task)
        if over:
            state = "gone" if task is None else task.data["state"]
            yield Violation("timers_are_forgotten", timer.where, f"its eviction is {state}")


def _is_ended(task: Seen) -> bool:
    return task.data.get("reason") == "BindingEnded"


def asks_are_answered(run: Run) -> Iterator[Violation]:
    """After quiet every ask that is not requested yet has an answer, and is that of a Held eviction."""
    if not (run.history.quiet and run.runs("eviction") and run.runs("governor")):
        return
    tasks = run.table("evictions")
    for key, ask in run.table("eviction-asks").items():
        state = tasks[key].data["state"] if key in tasks else "nothing"
        answers = [one.data.get("asked") for one in run.records("eviction-answers", key)]
        if state not in {"Held", "Requested"}:
            yield Violation("asks_are_answered", ask.where, f"asks for what is {state}")
        elif not ask.data.get("requested") and ask.data["revision"] not in answers:
            yield Violation("asks_are_answered", ask.where, "has no answer")


def _wrong(run: Run, task: Seen | None, time: float | None) -> str:
    """What is wrong with an eviction, given when the work must leave; empty when nothing is."""
    state = task.data["state"] if task is not None else "nothing"
    if state == "Requested":
        return ""  # nobody calls it back
    if time is None or time >= _NEVER:
        return f"is {state}, and may stay" if state in {"Scheduled", "Held"} else ""
    if time > run.history.ended + run.skew:
        deadline = when(task.data, "deadline") if task is not None else None
        if state != "Scheduled" or deadline is None or abs(deadline - time) > EPSILON:
            return f"must leave at {time:.6f}, and is {state} for {deadline}"
        return ""
    if time + run.skew + run.allowances.lateness < run.history.ended and state != "Held":
        return f"had to leave by {time:.6f}, and is {state}"
    return ""


def _unheld(run: Run, task: Seen) -> Iterator[str]:
    """Whatever is wrong with the reasons for which an eviction is held."""
    names = task.data.get("heldBy") or ()
    if not names and run.runs("governor"):
        yield "is held by nothing"
    guards = {guard_name(one): one for key, one in run.table("resources").items() if key.partition("/")[0] in _GUARDS}
    workload, target, generation = task.key.split("|")
    subject = subject_of(run, task, workload, target, int(generation))
    bound = run.table("bindings").get(f"{workload}|{target}")
    if subject is not None and bound is not None:
        # Labels and zones change; what holds it has to concern what it is like in the end.
        zone = (run.table("taints")[target].data.get("zone") or "") if target in run.table("taints") else subject.zone
        subject = replace(subject, labels=bound.data.get("labels") or {}, zone=zone)
    for name in names:
        if name == "resource-eviction-rate":
            continue
        if name not in guards:
            yield f"is held by {name}, which is not there"
        elif subject is not None and not concerns(guards[name], subject):
            yield f"is held by {name}, which does not concern it"

    if names and all(name in guards and _has_room(run, guards[name]) for name in names):
        yield f"is held by {', '.join(names)}, of which nothing is under way"


def _has_room(run: Run, guard: Seen) -> bool:
    """Whether a budget surely lets something go: some at a time, and nothing is under way."""
    spec = guard.data["object"].get("spec") or {}
    if guard.key.partition("/")[0] != "EvictionBudget" or spec.get("maxInWindow") is not None:
        return False
    if spec.get("maxConcurrent") in {None, 0, "0", "0%"}:
        return False
    if any(str(seen.data.get("owner", {}).get("kind")) in _OWNERS for seen in run.of("evictions")):
        return False  # one that is gone counts until its owner has another
    bound, tasks = run.table("bindings"), run.table("evictions")
    requested = [key.rpartition("|") for key, task in tasks.items() if task.data["state"] == "Requested"]
    return not any(place in bound for place, _, _ in requested)


_OWNERS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"})
_GUARDS = frozenset({"EvictionPause", "EvictionBudget", "PodDisruptionBudget"})


def what_is_due_is_done(run: Run) -> Iterator[Violation]:
    """After quiet no timer is open whose deadline passed longer ago than the lateness allowed (and the skew)."""
    if not (run.history.quiet and run.runs("timer")):
        return
    fired = {(seen.key, seen.data.get("generation")) for seen in run.of("timer-fired")}
    by = run.history.ended - run.allowances.lateness - run.skew
    for key, timer in run.table("timers").items():
        deadline = when(timer.data, "deadline")
        if deadline is None or max(deadline, timer.entry.committed) >= by:
            continue
        if (key, timer.data["generation"]) not in fired:
            yield Violation("what_is_due_is_done", timer.where, f"has not fired, {by - deadline:.3f} s and more late")


def nothing_is_left_to_repair(run: Run) -> Iterator[Violation]:
    """After quiet no replica's reconciler would write anything, by all that this replica holds in memory.

    One that holds something else than the topics do, and lives by it, shows here.
    """
    if run.history.quiet:
        for repair in run.history.repairs:
            yield Violation("nothing_is_left_to_repair", repair, "would be written, though all is at rest")


def views_are_the_topics(run: Run) -> Iterator[Violation]:
    """After quiet what each process holds of a topic is what the topic holds.

    `History.views` gives, by process and service, a mapping for each topic (by its short name): from each key that is
    there to its record as JSON, or to some fields of it. What is there in the one and not in the other, or differs in
    such a field, is wrong.
    """
    if not run.history.quiet:
        return
    for process, tables in sorted(run.history.views.items()):
        for topic, held in sorted(tables.items()):
            if not isinstance(held, Mapping):
                continue
            table = run.table(topic)
            for key in sorted({*held} ^ {*table}):
                where = "only in the view" if key in held else "only in the topic"
                yield Violation("views_are_the_topics", f"{process} {topic} {key}", where)
            for key in sorted({*held} & {*table}):
                fields = held[key]
                if not isinstance(fields, Mapping):
                    continue
                for field, value in fields.items():
                    if table[key].data.get(field) != value:
                        message = f"{field} is {value!r}, in the topic {table[key].data.get(field)!r}"
                        yield Violation("views_are_the_topics", f"{process} {topic} {key}", message)
