"""The checker finds nothing in sound runs of the services, and each thing that is planted in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.chaos.seeded import flows
from tests.chaos.seeded.checker import INVARIANTS, check
from tests.chaos.seeded.checker.agreement import evictions_are_what_is_due
from tests.chaos.seeded.checker.budgets import windows_are_kept
from tests.chaos.seeded.checker.growth import nothing_grows
from tests.chaos.seeded.checker.zones import nodes_are_tainted_at_their_zones_rate
from tests.chaos.seeded.edited_history import Json, changed, find, instant, put, text, value_of, where, without
from tests.chaos.seeded.history import Entry, History
from tests.support.tables import table

GRANTED = where("zone-grants", granted=True)
WAITING = "Pod/default/waiting|Node/n3|1"


@pytest.mark.parametrize("run", flows.SOUND, ids=lambda run: run.__name__)
def test_a_sound_run_breaks_nothing(run: Callable[[], History]) -> None:
    history = run()
    assert len(history.entries) > 20
    assert [str(violation) for violation in check(history)] == []


def lost_record() -> History:
    history = flows.heartbeats()
    report = find(history, where("condition-reports"), 5)
    return replace(history, entries=[entry for entry in history.entries if entry is not report])


def lost_report() -> History:
    return without(flows.patience(), where("conditions", "DiskPressure"))


def lost_edit() -> History:
    history = flows.patience()
    return changed(history, find(history, where("taints", "n1"), -1), {"wishesApplied": 0})


def requested_twice() -> History:
    history = flows.patience()
    request = find(history, where("evictions", "patient", state="Requested"))
    return put(history, "evictions", request.key, value_of(request) | {"revision": 9})


def same_revision() -> History:
    history = flows.patience()
    return changed(history, find(history, where("evictions", "patient", state="Requested")), {"revision": 1})


def requested_and_cancelled() -> History:
    history = flows.patience()
    request = find(history, where("evictions", "patient", state="Requested"))
    return put(history, "evictions", request.key, value_of(request) | {"revision": 9, "state": "Cancelled"})


def completed_too_soon() -> History:
    return without(flows.patience(), lambda entry, _: entry.topic == "bindings" and entry.value is None)


def tombstone_of_what_is_scheduled() -> History:
    return put(flows.patience(), "evictions", WAITING, None)


def falsely_ended() -> History:
    history = flows.patience()
    last = value_of(find(history, where("evictions", WAITING), -1))
    return put(history, "evictions", WAITING, last | {"revision": 9, "state": "Cancelled", "reason": "BindingEnded"})


def earlier_binding_later() -> History:
    history = flows.patience()
    first = find(history, where("evictions", "patient"))
    return put(history, "evictions", f"{first.key[:-1]}2", value_of(first) | {"generation": 2}, before=first)


def same_taints_again() -> History:
    history = flows.patience()
    last = find(history, where("taints", "n1"), -1)
    return put(history, "taints", last.key, value_of(last), source="moorage/taint-manager")


def timer_moved_back() -> History:
    history = flows.patience()
    timer = find(history, where("timers", "waiting"), -1)
    return put(history, "timers", timer.key, value_of(timer) | {"deadline": text(history.ended + 1)})


def fired_twice() -> History:
    history = flows.patience()
    fired = find(history, where("timer-fired"))
    return put(history, "timer-fired", fired.key, value_of(fired))


def fired_a_millisecond_early() -> History:
    history = flows.patience()
    fired = find(history, where("timer-fired"))
    return changed(history, fired, {"firedTime": text(instant(value_of(fired)["deadline"]) - 0.001)})


def without_taint() -> History:
    history = flows.patience()
    return changed(history, find(history, where("taints", "n1"), -1), {"taints": []})


def evicted_a_millisecond_early() -> History:
    history = flows.patience()
    return changed(history, find(history, where("evictions", "patient", state="Requested")), earlier=0.001)


def tolerated_for_longer() -> History:
    history = flows.patience()
    binding = find(history, where("bindings", "patient"))
    longer = [one | {"tolerationSeconds": 31} for one in value_of(binding)["tolerations"]]
    return changed(history, binding, {"tolerations": longer})


def tolerated_for_ever() -> History:
    history = flows.patience()
    binding = find(history, where("bindings", "patient"))
    longer = [one | {"tolerationSeconds": None} for one in value_of(binding)["tolerations"]]
    return changed(history, binding, {"tolerations": longer})


def decided_on_the_past() -> History:
    history = flows.patience()
    request = find(history, where("evictions", "patient", state="Requested"))
    return changed(history, request, sources="bindings=100,taints=0")


def decided_on_what_was_lifted() -> History:
    """Two seconds before the deadline a new set of taints is readable, but not read."""
    history = flows.patience()
    request = find(history, where("evictions", "patient", state="Requested"))
    tainted = find(history, where("taints", "n1"), -1)
    history = changed(history, request, sources=f"bindings=100,taints={tainted.offset + 1}")
    request = find(history, where("evictions", "patient", state="Requested"))
    lifted = value_of(tainted) | {"taints": [], "generation": 9}
    time = request.committed - 2
    return put(history, "taints", tainted.key, lifted, before=request, at=time, partition=tainted.partition)


def untainted_by_hand() -> History:
    history = flows.patience()
    request = find(history, where("evictions", "patient", state="Requested"))
    declared = find(history, where("resources", "Node//n1"), -1)
    wishes = [one | {"present": False, "generation": 9} for one in value_of(declared)["wishes"]]
    return put(
        history,
        "resources",
        declared.key,
        value_of(declared) | {"wishes": wishes, "version": 9},
        before=request,
        at=request.committed - 1,
        acknowledged=True,
    )


def ready_again() -> History:
    """A condition was accepted a second before somebody goes for what it takes away."""
    history = flows.patience()
    request = find(history, where("evictions", "slow", state="Requested"))
    ready = find(history, where("conditions", "Node/n3|Ready"))
    sound = value_of(ready) | {"status": "True", "generation": 9}
    return put(history, "conditions", ready.key, sound, before=request, at=request.committed - 1)


def its_own(history: History, request: Entry, **metadata: object) -> Json:
    """The record in `resources` of the pod of a request, by its binding."""
    binding = value_of(find(history, where("bindings", request.key.rpartition("|")[0])))
    meta = {"name": binding["workload"]["name"], "uid": binding["uid"], **metadata}
    return {"object": {"kind": "Pod", "metadata": meta, "spec": {"tolerations": binding["tolerations"]}}, "version": 9}


def tolerated_for_longer_by_its_own_record() -> History:
    """A pod's tolerations last longer a second before it goes, and its binding does not say so yet."""
    history = flows.patience()
    request = find(history, where("evictions", "patient", state="Requested"))
    longer = its_own(history, request)
    for toleration in longer["object"]["spec"]["tolerations"]:
        toleration["tolerationSeconds"] = 3600
    key = request.key.partition("|")[0]
    return put(history, "resources", key, longer, before=request, at=request.committed - 1)


def paused_by_its_own_labels() -> History:
    """A pod gets a label that a pause selects a second before it goes, and its binding does not have it yet."""
    history = flows.patience()
    request = find(history, where("evictions", "patient", state="Requested"))
    spec = {"scope": {"selector": {"matchLabels": {"app": "kept"}}}}
    pause = {"object": {"kind": "EvictionPause", "metadata": {"name": "kept"}, "spec": spec}, "version": 1}
    history = put(history, "resources", "EvictionPause//kept", pause, before=request, at=request.committed - 20)
    request = find(history, where("evictions", "patient", state="Requested"))
    labelled = its_own(history, request, labels={"app": "kept"})
    key = request.key.partition("|")[0]
    return put(history, "resources", key, labelled, before=request, at=request.committed - 1)


def reported_ready() -> History:
    """A report that a node is ready was accepted a second before a pod goes, and is in no condition yet."""
    history = flows.patience()
    request = find(history, where("evictions", "slow", state="Requested"))
    time = request.committed - 1
    report = {"target": {"kind": "Node", "name": "n3"}, "type": "Ready", "status": "True", "observedTime": text(time)}
    return put(history, "condition-reports", "Node/n3", report, before=request, at=time, acknowledged=True)


def requested_after_a_cancel() -> History:
    history = flows.patience()
    cancelled = find(history, where("evictions", "lucky", state="Cancelled"))
    after = next(entry for entry in history.entries if entry.order > cancelled.order)
    request = value_of(cancelled) | {"state": "Requested", "revision": value_of(cancelled)["revision"] + 1}
    return put(history, "evictions", cancelled.key, request, before=after)


def acknowledged_by_nobody() -> History:
    history = flows.deployed()
    acknowledged = find(history, lambda entry, value: entry.topic == "evictions" and bool(value.get("acknowledged")))
    waiting = find(history, where("evictions", "kept", state="Requested"), -1)
    return changed(history, waiting, {"acknowledged": value_of(acknowledged)["acknowledged"]})


def ended_unasked() -> History:
    history = flows.deployed()
    return changed(history, find(history, where("evictions", "done", state="Completed")), {"acknowledged": None})


def acknowledged_in_vain() -> History:
    history = flows.deployed()
    waiting = find(history, where("evictions", "kept", state="Requested"), -1)
    said = find(history, where("workload-conditions", "done", type="Evicted"))
    binding = waiting.key.rpartition("|")[0]
    named = {"workloadUid": value_of(waiting)["workloadUid"], "bindingGeneration": value_of(waiting)["generation"]}
    return put(history, "workload-conditions", f"{binding}|Evicted", value_of(said) | named)


def paused_all_the_time() -> History:
    return without(flows.budgets(), lambda entry, _: "EvictionPause" in entry.key and entry.value is None)


def paused_a_second_before() -> History:
    history = flows.budgets()
    request = find(history, where("evictions", state="Requested"), -1)
    pause = find(history, where("resources", "EvictionPause"))
    return put(history, "resources", "EvictionPause//again", value_of(pause), before=request, at=request.committed - 1)


def never_answered() -> History:
    return without(flows.budgets(), where("eviction-answers", granted=True))


def never_asked() -> History:
    history = flows.budgets()
    return changed(history, find(history, where("evictions", state="Requested")), {"asked": 0})


def narrower_window() -> History:
    history = flows.budgets()
    budget = find(history, where("resources", "EvictionBudget"))
    obj = value_of(budget)["object"]
    return changed(history, budget, {"object": obj | {"spec": obj["spec"] | {"windowSeconds": 61}}})


REQUESTED = where("evictions", state="Requested")


def used_late(seconds: float) -> History:
    """An eviction is let go, and requested so many seconds later."""
    history = flows.budgets()
    return changed(history, find(history, REQUESTED), earlier=-seconds)


def leave_kept_for_a_while() -> History:
    """Till just before the next one goes, a window later."""
    return used_late(58.5)


def leave_from_before_the_restart() -> History:
    history = flows.budgets()
    task = find(history, REQUESTED)
    answer = find(history, where("eviction-answers", task.key, granted=True))
    other = replace(task, started=answer.committed + 0.001)
    return replace(history, entries=[other if one is task else one for one in history.entries])


def clusters_left_together() -> History:
    """Granted one by one, requested at once."""
    history = flows.clusters()
    *before, last = (entry for entry in history.entries if REQUESTED(entry, value_of(entry)))
    for entry in before:
        history = changed(history, entry, earlier=entry.committed - last.committed)
    return history


def two_at_a_time() -> History:
    """The first that went is bound as long as the second goes."""
    history = flows.budgets()
    first, second = (find(history, where("eviction-answers", granted=True), number) for number in (0, 1))
    key = first.key.rpartition("|")[0]
    end = find(history, lambda entry, _: entry.topic == "bindings" and entry.key == key and entry.value is None)
    rest = replace(history, entries=[entry for entry in history.entries if entry is not end])
    return put(rest, "bindings", key, None, before=next(one for one in rest.entries if one.order > second.order))


def one_more_is_needed() -> History:
    history = flows.budgets()
    budget = find(history, where("resources", "PodDisruptionBudget"))
    obj = value_of(budget)["object"]
    return changed(history, budget, {"object": obj | {"spec": obj["spec"] | {"minAvailable": 4}}})


def cluster_left_too_fast() -> History:
    history = flows.clusters()
    answer = find(history, where("eviction-answers", granted=True), 1)
    return changed(history, answer, {"answeredTime": text(instant(value_of(answer)["answeredTime"]) - 0.01)})


def zone_left_too_fast() -> History:
    history = flows.outage()
    grant = find(history, GRANTED, 1)
    return changed(history, grant, {"grantedTime": text(instant(value_of(grant)["grantedTime"]) - 0.01)})


def granted_before_a_tick() -> History:
    history = flows.outage()
    grant = find(history, GRANTED)
    return changed(history, grant, {"grantedTime": text(instant(value_of(grant)["grantedTime"]) - 0.01)})


def evicts(entry: Entry, value: Json) -> bool:
    return entry.topic == "taints" and any(one["effect"] == "NoExecute" for one in value.get("taints", ()))


def zone_tainted_too_fast() -> History:
    """As if three nodes got their taints together; two might, if the first was told late."""
    history = flows.outage()
    for number in (1, 2):
        history = changed(history, find(history, evicts, number), earlier=10 * number)
    return history


def all_zones_lost() -> History:
    history, members = flows.outage(), where("zone-members", zone="/b")
    for entry in [one for one in history.entries if members(one, value_of(one))]:
        history = changed(history, entry, {"ready": False})
    return history


def tainted_without_grant() -> History:
    return without(flows.outage(), GRANTED)


def hold_not_kept() -> History:
    history = flows.patience()
    return replace(history, settings={**history.settings, "taint_add_hold": 2})


def bound_twice() -> History:
    history = flows.patience()
    binding = find(history, where("bindings", "loyal"))
    target = {"kind": "Node", "name": "n2"}
    other = value_of(binding) | {"target": target, "tolerations": [{"operator": "Exists"}]}
    return put(history, "bindings", "Pod/default/loyal|Node/n2", other, source="moorage/placement")


def bound_where_it_may_not_be() -> History:
    history = flows.budgets()
    tainted = find(history, where("taints", "Node/s"))
    taint = {"key": "full", "effect": "NoSchedule", "timeAdded": text(history.began), "origins": ["explicit"]}
    return changed(history, tainted, {"taints": [taint]})


def selected_in_spite_of_a_taint() -> History:
    history = flows.managed()
    tainted = find(history, where("taints", "c2"), -1)
    taint = {"key": "away", "effect": "NoSelect", "timeAdded": text(history.began), "origins": ["explicit"]}
    return changed(history, tainted, {"taints": [taint]})


def left_out() -> History:
    history = flows.managed()
    decision = find(history, where("placements", "PlacementDecision"), -1)
    return changed(history, decision, {"clusters": []})


def left_out_for_want_of_a_record() -> History:
    """An available cluster without a record of its taints is taken for one that nobody can reach."""
    history = flows.managed()
    decision = find(history, where("placements", "PlacementDecision"), -1)
    return without(changed(history, decision, {"clusters": []}), where("taints", "c2"))


def other_status() -> History:
    history = flows.patience()
    return changed(history, find(history, where("conditions", "DiskPressure")), {"status": "Unknown"})


def not_yet_silent() -> History:
    history = flows.heartbeats()
    silent = find(history, where("conditions", "n2|Ready", status="Unknown"))
    return replace(history, entries=[entry for entry in history.entries if entry is not silent])


def taint_without_reason() -> History:
    history = flows.patience()
    tainted = find(history, where("taints", "n2"), -1)
    taint = {
        "key": "node.kubernetes.io/pid-pressure",
        "effect": "NoSchedule",
        "timeAdded": text(history.began),
        "origins": ["explicit"],
    }
    return put(
        put(history, "conditions", "Node/n2|PIDPressure", {"status": "False", "targetUid": "", "generation": 1}),
        "taints",
        tainted.key,
        value_of(tainted) | {"taints": [*value_of(tainted)["taints"], taint], "generation": 99},
        source="moorage/taint-manager",
    )


def taint_missing() -> History:
    history = flows.patience()
    tainted = find(history, where("taints", "n2"), -1)
    left = [one for one in value_of(tainted)["taints"] if "disk" not in one["key"]]
    return changed(history, tainted, {"taints": left})


def another_deadline() -> History:
    history = flows.patience()
    task = find(history, where("evictions", WAITING), -1)
    return changed(history, task, {"deadline": text(instant(value_of(task)["deadline"]) + 1)})


def cancelled_in_spite_of_the_taint() -> History:
    history = flows.patience()
    task = value_of(find(history, where("evictions", WAITING), -1))
    return put(history, "evictions", WAITING, task | {"state": "Cancelled", "reason": "TaintRemoved", "revision": 9})


def held_by_nobody() -> History:
    history = flows.patience()
    task = value_of(find(history, where("evictions", WAITING), -1))
    held = {"state": "Held", "revision": 9, "asked": 9, "heldBy": ["EvictionBudget/gone"]}
    return put(history, "evictions", WAITING, task | held)


def ask_forgotten() -> History:
    return put(flows.budgets(), "eviction-asks", "Pod/default/x|Node/n1|1", {"revision": 1, "requested": False})


def timer_forgotten() -> History:
    history = flows.patience()
    timer = find(history, where("timers", "patient"))
    data = value_of(timer) | {"generation": 50, "deadline": text(history.ended - 20)}
    return put(history, "timers", "another", data, at=history.ended - 25)


def view_that_stands_still() -> History:
    history = flows.patience()
    view = {"Node/n1": {"generation": 1}, "Node/n2": {"generation": 1}, "Node/n9": {"generation": 1}}
    return replace(history, views={"placement-0": {"taints": view}})


def service_that_fails() -> History:
    letter = {"topic": "resources", "partition": 0, "offset": 1, "rule": "must not make the service fail"}
    return put(flows.patience(), "dead-letters", "Node//n1", letter)


def replica_that_knows_otherwise() -> History:
    return replace(flows.patience(), repairs=("taint-manager-0/1 taints Node/n1",))


def grant_of_a_node_that_is_gone() -> History:
    history = flows.patience()
    grant = {"target": {"kind": "Node", "name": "gone"}, "granted": True, "incident": 1, "generation": 1}
    return replace(put(history, "zone-grants", "Node/gone", grant), whole=True)


def eviction_kept_too_long() -> History:
    history = flows.patience()
    task = {"state": "Completed", "decidedTime": text(history.ended - 2 * 86_400), "revision": 1, "generation": 1}
    return replace(put(history, "evictions", "Pod/default/old|Node/n1|1", task), whole=True)


def key_from_nowhere() -> History:
    history = flows.patience()
    data = {"target": {"kind": "Node", "name": "n1"}, "owner": "timer", "generation": 1}
    return replace(put(history, "timers", "nobody's", data), rested=history.ended - 0.001)


def row_from_nowhere() -> History:
    history = flows.patience()
    return replace(history, rested=history.ended + 1, rows={"timer-0.1/0": (7, 7), "timer-0.1/1": (7, 8)})


PLANTED: dict[Callable[[], History], str] = {
    lost_record: "what_was_acknowledged_is_there",
    lost_report: "no_report_is_lost",
    lost_edit: "no_edit_is_lost",
    requested_twice: "evictions_have_one_outcome",
    same_revision: "evictions_have_one_outcome",
    requested_and_cancelled: "evictions_have_one_outcome",
    completed_too_soon: "evictions_have_one_outcome",
    tombstone_of_what_is_scheduled: "evictions_have_one_outcome",
    falsely_ended: "evictions_have_one_outcome",
    earlier_binding_later: "generations_of_evictions_grow",
    same_taints_again: "generations_grow",
    timer_moved_back: "timers_move_forward",
    fired_twice: "timers_fire_once_and_never_early",
    fired_a_millisecond_early: "timers_fire_once_and_never_early",
    without_taint: "nobody_evicted_needlessly",
    evicted_a_millisecond_early: "nobody_evicted_early",
    tolerated_for_longer: "nobody_evicted_early",
    tolerated_for_ever: "nobody_evicted_needlessly",
    decided_on_the_past: "nobody_evicted_on_stale_positions",
    decided_on_what_was_lifted: "nobody_evicted_needlessly",
    untainted_by_hand: "nobody_evicted_after_relief",
    ready_again: "nobody_evicted_after_relief",
    tolerated_for_longer_by_its_own_record: "nobody_evicted_against_its_own_record",
    paused_by_its_own_labels: "nobody_evicted_whose_labels_are_paused",
    reported_ready: "nobody_evicted_from_a_node_reported_ready",
    requested_after_a_cancel: "nobody_evicted_after_a_cancel",
    acknowledged_by_nobody: "what_is_acknowledged_was_reported",
    ended_unasked: "what_waits_is_not_ended",
    acknowledged_in_vain: "what_was_reported_is_acknowledged",
    paused_all_the_time: "nobody_evicted_while_paused",
    paused_a_second_before: "nobody_evicted_while_paused",
    never_answered: "nobody_evicted_without_leave",
    never_asked: "nobody_evicted_without_leave",
    narrower_window: "windows_are_kept",
    leave_kept_for_a_while: "windows_are_kept",
    leave_from_before_the_restart: "nobody_evicted_without_leave",
    clusters_left_together: "cluster_rate_is_kept",
    two_at_a_time: "concurrency_is_kept",
    one_more_is_needed: "disruption_budgets_are_kept",
    cluster_left_too_fast: "cluster_rate_is_kept",
    zone_left_too_fast: "zone_rates_are_kept",
    granted_before_a_tick: "nodes_wait_for_a_tick",
    zone_tainted_too_fast: "nodes_are_tainted_at_their_zones_rate",
    all_zones_lost: "lost_zones_get_nothing",
    tainted_without_grant: "node_taints_are_granted",
    hold_not_kept: "conditions_have_held",
    bound_twice: "bare_work_is_in_one_place",
    bound_where_it_may_not_be: "bindings_tolerate",
    selected_in_spite_of_a_taint: "selected_clusters_are_tolerated",
    left_out: "available_clusters_are_selected",
    left_out_for_want_of_a_record: "available_clusters_are_selected",
    other_status: "conditions_are_the_last_reports",
    not_yet_silent: "conditions_are_the_last_reports",
    taint_without_reason: "taints_are_what_is_asked_for",
    taint_missing: "taints_are_what_is_asked_for",
    another_deadline: "evictions_are_what_is_due",
    cancelled_in_spite_of_the_taint: "evictions_are_what_is_due",
    held_by_nobody: "evictions_are_what_is_due",
    ask_forgotten: "asks_are_answered",
    timer_forgotten: "what_is_due_is_done",
    view_that_stands_still: "views_are_the_topics",
    replica_that_knows_otherwise: "nothing_is_left_to_repair",
    service_that_fails: "no_service_fails",
    grant_of_a_node_that_is_gone: "what_is_kept_is_declared",
    eviction_kept_too_long: "what_is_kept_is_declared",
    key_from_nowhere: "nothing_grows",
    row_from_nowhere: "nothing_grows",
}
"""What is planted, and the promise that it breaks."""


@table("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_is_planted_is_found(plant: Callable[[], History]) -> None:
    assert PLANTED[plant] in {violation.invariant for violation in check(plant())}


def test_what_comes_due_may_bring_new_keys() -> None:
    history = key_from_nowhere()
    fired = put(history, "timer-fired", "patient", {"id": "patient", "owner": "eviction", "generation": 1})
    assert list(check(history, only=[nothing_grows]))
    assert not list(check(fired, only=[nothing_grows]))


def test_an_answer_may_be_on_its_way_for_a_moment() -> None:
    """By so much two that go are nearer to one another than a window is long."""
    assert not list(check(used_late(1.9), only=[windows_are_kept]))
    assert [one.invariant for one in check(used_late(2.1), only=[windows_are_kept])] == ["windows_are_kept"]


@pytest.mark.parametrize(("earlier", "found"), [(0.0, 1), (0.5, 0)])
def test_a_node_has_its_taint_when_the_governor_can_know(earlier: float, found: int) -> None:
    """Three nodes get it in 9.7 s; of the first it could be read on `zone-members` some time before."""
    history = flows.outage()
    first, second, last = (find(history, evicts, number) for number in range(3))

    def said(entry: Entry, _: Json) -> bool:
        return (entry.topic, entry.key) == ("zone-members", first.key) and entry.order > first.order

    told = find(history, said)
    moved = {second.order: first.committed + 5, last.order: first.committed + 9.7, told.order: told.committed - earlier}
    entries = [replace(one, committed=moved.get(one.order, one.committed)) for one in history.entries]
    assert len(check(replace(history, entries=entries), only=[nodes_are_tainted_at_their_zones_rate])) == found


@pytest.mark.parametrize(("now", "found"), [("web", 0), ("db", 1)])
def test_what_holds_an_eviction_must_select_its_present_labels(now: str, found: int) -> None:
    history = flows.patience()
    spec = {"maxConcurrent": 0, "scope": {"selector": {"matchLabels": {"app": "web"}}}}
    budget = {"kind": "EvictionBudget", "metadata": {"name": "slow"}, "spec": spec}
    history = put(history, "resources", "EvictionBudget//slow", {"object": budget, "version": 1})
    binding = find(history, where("bindings", "Pod/default/waiting"), -1)
    history = changed(history, binding, {"labels": {"app": "web"}})
    task = value_of(find(history, where("evictions", WAITING), -1))
    held = {"state": "Held", "revision": 9, "asked": 9, "heldBy": ["EvictionBudget/slow"]}
    history = put(history, "evictions", WAITING, task | held)
    history = put(history, "bindings", binding.key, value_of(binding) | {"labels": {"app": now}, "revision": 2})
    messages = [one.message for one in check(history, only=[evictions_are_what_is_due])]
    assert sum("which does not concern it" in message for message in messages) == found


BY_HAND = {
    "bindings_are_what_was_decided",
    "claimed_work_makes_no_pods",
    "conditions_begin_with_their_report",
    "conditions_go_forward",
    "deadlines_are_what_taints_say",
    "deadlines_have_their_timers",
    "decisions_are_written_soon",
    "named_requesters_had_asked",
    "nobody_is_refused_for_nothing",
    "nobody_is_silenced_who_spoke",
    "nobody_leaves_unasked",
    "nobody_scheduled_late",
    "nothing_is_done_twice",
    "owners_know_what_was_there",
    "reports_count_for_their_target",
    "requested_work_has_left",
    "taint_policies_are_followed",
    "timers_are_forgotten",
    "what_waited_is_read_in_order",
    "who_demands_it_is_named",
    "zones_know_their_nodes",
}
"""Those against which `test_checker_leaves.py`, `test_checker_owners.py`, `test_checker_policies.py` and
`test_checker_tells.py` plant something."""


def test_every_promise_has_something_planted_against_it() -> None:
    assert {invariant.__name__ for invariant in INVARIANTS} <= {*PLANTED.values(), *BY_HAND}
