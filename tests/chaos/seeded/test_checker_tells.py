"""What the checker says of single records: of what was told, of timers and zones, and of what was written late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.checker.agreement import taints_are_what_is_asked_for
from tests.chaos.seeded.edited_history import changed, find, nothing, put, text, where
from tests.chaos.seeded.history import History

BEGAN = 1_000_000.0
NODE, READY = "Node/n", "Node/n|Ready"
POD = {"kind": "Pod", "namespace": "default", "name": "p"}
WHO = "Pod/default/p"


def broken(history: History) -> set[str]:
    """The promises that a history breaks."""
    return {violation.invariant for violation in check(history)}


def declared(history: History, kind: str, name: str, *, uid: str = "u", spec: Any = None, at: float = 0.0) -> History:
    """Something is declared."""
    scope = "" if kind == "Node" else "default"
    metadata = {"name": name, "uid": uid, "namespace": scope}
    obj = {"kind": kind, "metadata": metadata, "spec": spec or {}}
    return put(history, "resources", f"{kind}/{scope}/{name}", {"object": obj, "version": 1}, at=BEGAN + at)


def reported(
    history: History, at: float, observed: float, status: str = "True", *, source: str = "probe"
) -> tuple[History, str]:
    """A node is reported, mostly by a probe; with the id of the report."""
    data = {"target": {"kind": "Node", "name": "n"}, "type": "Ready", "status": status, "observedTime": text(observed)}
    history = put(history, "condition-reports", NODE, data, source=source, at=BEGAN + at)
    return history, find(history, where("condition-reports"), -1).headers["ce_id"]


def condition(report: str, heard: float, at: float, generation: int, status: str = "True") -> dict[str, Any]:
    """A condition that a report has brought."""
    return {
        "targetUid": "u",
        "type": "Ready",
        "status": status,
        "source": "probe",
        "generation": generation,
        "reportId": report,
        "lastHeartbeatTime": text(heard),
        "acceptedTime": text(BEGAN + at),
        "statusSince": text(BEGAN + at),
    }


INGEST = "moorage/condition-ingest"


def told(*, goes_back: bool = False, early: float = 0.0) -> History:
    """Two reports of a node, the later one observed before the other perhaps, and what became of them."""
    history = nothing(quiet=False)
    for generation, (at, seen) in enumerate([(10.0, 10.0), (20.0, 5.0 if goes_back else 20.0)], 1):
        history, report = reported(history, at, BEGAN + seen)
        data = condition(report, BEGAN + seen, at + 0.01 - early, generation)
        history = put(history, "conditions", READY, data, source=INGEST, at=BEGAN + at + 0.01)
    return history


def test_a_condition_does_not_go_back_to_an_older_report() -> None:
    assert broken(told()) == set()
    assert broken(told(goes_back=True)) == {"conditions_go_forward"}


def test_a_condition_does_not_count_from_before_its_report() -> None:
    assert broken(told(early=0.005)) == set()
    assert broken(told(early=0.5)) == {"conditions_begin_with_their_report"}


def refused(declared_at: float, gone_at: float | None = None) -> History:
    """A report that was refused since nobody had declared its target."""
    history = declared(nothing(quiet=False), "Node", "n", at=declared_at)
    if gone_at is not None:
        history = put(history, "resources", "Node//n", None, at=BEGAN + gone_at)
    history, _ = reported(history, 20.0, BEGAN + 20)
    letter = {"topic": "condition-reports", "partition": 0, "offset": 0, "reason": "UnknownTarget"}
    return put(history, "dead-letters", NODE, letter, source=INGEST, at=BEGAN + 20.1)


def test_no_report_is_refused_whose_target_was_declared() -> None:
    assert broken(refused(10)) == {"nobody_is_refused_for_nothing"}
    assert broken(refused(10, gone_at=15)) == set()


def made_again(*, counts_for: str, reported_at: float, before: str = "", **given: Any) -> History:
    """A node that is declared at 0 s, deleted at 15 s and declared anew at 20 s; and what became of one report."""
    history, report = nothing(**given), ""
    for uid, since in (("u", 0.0), ("v", 20.0)):
        metadata = {"name": "n", "uid": uid, "creationTimestamp": text(BEGAN + since)}
        value = {"object": {"kind": "Node", "metadata": metadata, "spec": {}}, "version": 1}
        if uid == "v":
            history = put(history, "resources", "Node//n", None, at=BEGAN + 15)
            if before:
                said = condition("", BEGAN + 1, 1, 1, before)
                history = put(history, "conditions", READY, said, source=INGEST, at=BEGAN + 15)
        if reported_at < since and uid == "v":
            history, report = reported(history, reported_at, BEGAN + reported_at)
        history = put(history, "resources", "Node//n", value, at=BEGAN + since)
    if reported_at >= 20:
        data = {"target": {"kind": "Node", "name": "n"}, "type": "Ready", "status": "True"}
        data |= {"observedTime": text(BEGAN + reported_at)}
        history = put(
            history, "condition-reports", NODE, data, source="probe", at=BEGAN + reported_at, acknowledged=True
        )
        report = find(history, where("condition-reports"), -1).headers["ce_id"]
    found = condition(report, BEGAN + reported_at, 21, 2) | {
        "targetUid": counts_for,
        "target": {"kind": "Node", "name": "n"},
    }
    return put(history, "conditions", READY, found, source=INGEST, at=BEGAN + 21)


def test_no_report_counts_for_a_target_that_was_declared_later() -> None:
    rule = "reports_count_for_their_target"
    assert rule in broken(made_again(counts_for="v", reported_at=18.9, quiet=False))
    assert rule not in broken(made_again(counts_for="v", reported_at=19.1, quiet=False)), "clocks differ"
    assert rule not in broken(made_again(counts_for="u", reported_at=18.9, quiet=False))


def test_a_report_that_counted_for_an_earlier_target_is_lost() -> None:
    lost, settings = "no_report_is_lost", {"node_monitor_grace_period": 0}
    assert lost in broken(made_again(counts_for="u", reported_at=20.5, settings=settings))
    assert lost not in broken(made_again(counts_for="v", reported_at=20.5, settings=settings))
    assert lost in broken(made_again(counts_for="u", reported_at=20.5)), "something new, or from who is not watched"
    assert lost not in broken(made_again(counts_for="u", reported_at=20.5, before="True")), "a heartbeat"
    assert lost in broken(made_again(counts_for="u", reported_at=20.5, before="True", settings=settings))


def silenced(spoke_again: float, *, asked: float | None = None) -> History:
    """A source of 10 s that is taken for silent at 20 s; it spoke at 9 s, and at some time after that.

    A chain asks itself whether it is silent before it writes at 19.2 s that the timer fired.
    """
    history = nothing(quiet=False, settings={"node_monitor_grace_period": 10})
    history, first = reported(history, 9.0, BEGAN + 9)
    history = put(history, "conditions", READY, condition(first, BEGAN + 9, 9.1, 1), source=INGEST, at=BEGAN + 9.1)
    again = ""
    question = ""
    if asked is not None:
        history, question = reported(history, asked, BEGAN + 19.1, "Unknown", source=INGEST)
    if spoke_again < 19.2:
        history, again = reported(history, spoke_again, BEGAN + spoke_again)
    fired = {"target": {"kind": "Node", "name": "n"}, "owner": "condition-ingest", "generation": 1, "subject": "probe"}
    times = {"deadline": text(BEGAN + 19.1), "firedTime": text(BEGAN + 19.1)}
    history = put(history, "timers", "heartbeat|n", fired | times, source=INGEST, at=BEGAN + 9.1)
    history = put(history, "timer-fired", "heartbeat|n", fired | times, source="moorage/timer", at=BEGAN + 19.2)
    if spoke_again >= 19.2:
        history, again = reported(history, spoke_again, BEGAN + spoke_again)
    unknown = condition("", BEGAN + 9, 20, 2, "Unknown")
    history = put(history, "conditions", READY, unknown, source=INGEST, at=BEGAN + 20, cause=question)
    heard = condition(again, BEGAN + spoke_again, 20.5, 3)
    return put(history, "conditions", READY, heard, source=INGEST, at=BEGAN + 20.5)


def test_no_source_is_called_silent_that_spoke_before_its_timer_fired() -> None:
    assert broken(silenced(15)) == {"nobody_is_silenced_who_spoke"}
    assert broken(silenced(19.5)) == set(), "that came later, and need not be known"
    assert broken(silenced(19.17, asked=19.15)) == set(), "after the question"
    assert broken(silenced(19.13, asked=19.15)) == {"nobody_is_silenced_who_spoke"}


def evicted(*, late: float = 0.0, others: Sequence[float] = (22, 22.5)) -> History:
    """A pod that is scheduled for 20 s, and requested then; written perhaps later than it was decided."""
    history = nothing(quiet=False)
    owner = {"workload": POD, "owner": POD, "uid": "u", "generation": 1, "revision": 1}
    tolerated = {"tolerations": [{"key": "bad", "operator": "Exists", "tolerationSeconds": 10}]}
    history = put(history, "bindings", f"{WHO}|{NODE}", owner | tolerated, source="moorage/placement", at=BEGAN + 1)
    bad = {"key": "bad", "value": "", "effect": "NoExecute", "timeAdded": text(BEGAN + 10), "origins": ["explicit"]}
    history = put(history, "taints", NODE, {"targetUid": "", "generation": 1, "taints": [bad]}, at=BEGAN + 10)
    timer = {"generation": 1, "deadline": text(BEGAN + 20)}
    key = f"{WHO}|{NODE}|1"
    history = put(history, "timers", f"evict|{key}", timer, source="moorage/eviction", at=BEGAN + 10.1)
    task = {"state": "Scheduled", "revision": 1, "generation": 1, "workloadUid": "u", "deadline": text(BEGAN + 20)}
    history = put(history, "evictions", key, task, source="moorage/eviction", at=BEGAN + 10.1)
    for other in others:
        history = put(history, "audit", "others", {}, at=BEGAN + other)
    task = {"state": "Requested", "revision": 2, "generation": 1, "workloadUid": "u", "reason": "TolerationExpired"}
    history = put(history, "evictions", key, task, source="moorage/eviction", at=BEGAN + 20 + late)
    entry = find(history, where("evictions"), -1)
    decided = replace(entry, headers={**entry.headers, "ce_time": text(BEGAN + 20)})
    return replace(history, entries=[decided if one is entry else one for one in history.entries])


def test_what_was_decided_long_ago_is_not_written() -> None:
    assert broken(evicted()) == set()
    assert broken(evicted(late=6)) == set()
    assert broken(evicted(late=8)) == {"decisions_are_written_soon"}
    assert broken(evicted(late=8, others=[22, 22.1])) == set(), "the broker hung twice, and worked in between"


def test_a_deadline_has_its_timer() -> None:
    history = evicted()
    without = [one for one in history.entries if one.topic != "timers"]
    assert broken(replace(history, entries=without)) == {"deadlines_have_their_timers"}


def test_a_pod_leaves_when_that_is_asked_for() -> None:
    history = evicted()
    place = f"{WHO}|{NODE}"
    assert broken(put(history, "bindings", place, None, source="moorage/placement", at=BEGAN + 21)) == set()
    before = find(history, where("evictions", state="Requested"))
    early = put(history, "bindings", place, None, before=before, source="moorage/placement", at=BEGAN + 15)
    assert "nobody_leaves_unasked" in broken(early)


def waiting(positions: str) -> History:
    """A taint-manager that begins at 30 s and writes; a condition of 10 s and a grant of 20 s were waiting."""
    history = put(nothing(quiet=False), "conditions", READY, condition("", BEGAN, 10, 1), at=BEGAN + 10)
    grant = {"granted": True, "incident": 1, "generation": 1, "zone": "/a"}
    history = put(history, "zone-grants", NODE, grant, at=BEGAN + 20)
    bare = {"targetUid": "u", "generation": 1, "taints": []}
    history = put(history, "taints", NODE, bare, source="moorage/taint-manager", at=BEGAN + 31)
    entry = find(history, where("taints"))
    history = changed(history, entry, sources=positions)
    entries = [replace(one, started=BEGAN + 30) if one.topic == "taints" else one for one in history.entries]
    return replace(history, entries=entries)


def test_what_waited_is_read_in_order() -> None:
    assert broken(waiting("conditions=1,zone-grants=1")) == set()
    assert broken(waiting("conditions=1,zone-grants=0")) == set(), "it comes next"
    assert broken(waiting("conditions=0,zone-grants=1")) == {"what_waited_is_read_in_order"}


def placed(claimed_at: float) -> History:
    """A deployment's pod on a node, and a policy that places the deployment on clusters."""
    selectors = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}
    history = nothing(quiet=False)
    steps = sorted([(claimed_at, "PropagationPolicy", "all", selectors), (10.0, "Deployment", "web", {})])
    for at, kind, name, spec in steps:
        history = declared(history, kind, name, spec=spec, at=at)
    owner = {"kind": "Deployment", "namespace": "default", "name": "web"}
    bound = {"workload": POD, "owner": owner, "uid": "u", "generation": 1, "revision": 1}
    return put(history, "bindings", f"{WHO}|{NODE}", bound, source="moorage/placement", at=BEGAN + 11)


def test_claimed_work_makes_no_pods() -> None:
    assert broken(placed(5)) == {"claimed_work_makes_no_pods"}
    assert broken(placed(10.5)) == set()


def zoned(**member: Any) -> History:
    """A node with the taint for not being ready, and what its zone was told."""
    history = declared(nothing(settings={"services": ["zones"]}), "Node", "n")
    history = replace(history, settings={"services": ["taint-manager"]})
    lost = {"targetUid": "u", "type": "Ready", "status": "False", "generation": 1, "statusSince": text(BEGAN)}
    history = put(history, "conditions", READY, lost | {"lastHeartbeatTime": text(BEGAN)}, at=BEGAN + 1)
    bad = {"key": "node.kubernetes.io/not-ready", "value": "", "effect": "NoSchedule", "timeAdded": text(BEGAN)}
    taints = {"targetUid": "u", "generation": 1, "taints": [bad | {"origins": ["condition"]}], "zone": "/a"}
    history = put(history, "taints", NODE, taints, source="moorage/taint-manager", at=BEGAN + 2)
    if not member:
        return history
    told_so = {"zone": "/a", "ready": False, "generation": 1} | member
    return put(history, "zone-members", NODE, told_so, source="moorage/taint-manager", at=BEGAN + 2)


def test_zones_know_their_nodes() -> None:
    assert broken(zoned(ready=False)) == set()
    for history in (zoned(), zoned(ready=True), zoned(zone="/b")):
        assert broken(history) == {"zones_know_their_nodes"}
    gone = put(zoned(ready=False), "resources", "Node//n", None, at=BEGAN + 3)
    assert "zones_know_their_nodes" in broken(gone)


@pytest.mark.parametrize(("uid", "found"), [("u", {"taints_are_what_is_asked_for"}), ("earlier", set())])
def test_leave_is_of_one_life(uid: str, found: set[str]) -> None:
    """A node that was made again is not ready, and its incident has the number of one that was granted before."""
    history = declared(nothing(), "Node", "n")
    history, report = reported(history, 10, BEGAN + 10, "False")
    history = put(history, "conditions", READY, condition(report, BEGAN + 10, 10, 1, "False"), source=INGEST)
    grant = {"targetUid": uid, "zone": "/", "incident": 2, "generation": 1, "granted": True}
    history = put(history, "zone-grants", NODE, grant, source="moorage/governor")
    taint = {"key": "node.kubernetes.io/not-ready", "value": "", "effect": "NoSchedule", "origins": ["condition"]}
    taints = {"targetUid": "u", "generation": 1, "incident": 2, "taints": [taint | {"timeAdded": text(BEGAN + 10)}]}
    history = put(history, "taints", NODE, taints, source="moorage/taint-manager")
    assert {one.invariant for one in check(history, only=[taints_are_what_is_asked_for])} == found
