"""Themes of stories: what has to come together so that something rare can happen, with scenes in which it does.

A scene is a few acts that belong together: how long after the one before, what, and to whom. What else the seed draws
happens around them, and breaks them now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

AT_ONCE: Final = "now"
"""A taint that nothing tolerates."""

Scene = Callable[[Random], str]
"""Draws a scene: acts, each after some seconds, as `0.5 taint n0 now; 0.02 away eviction 3`."""


@dataclass(frozen=True, slots=True)
class Theme:
    """What some stories have in common."""

    weight: float
    """How often it is drawn, among all that is not the ordinary mixture."""

    scenes: tuple[Scene, ...]
    settings: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """From what each setting is drawn, where it is not drawn as in the mixture."""

    kinds: frozenset[str] = frozenset()
    """Targets beside nodes that there must be."""

    nodes: tuple[int, int] = (1, 3)
    zones: str = "aab"
    pods: tuple[int, int] = (0, 2)
    workers: tuple[int, ...] = (1, 2)
    partitions: tuple[int, ...] = (1, 1, 2)
    guarded: bool | None = None
    """Whether pauses and budgets stand to the end; None leaves it to the seed."""

    cleaned: bool | None = False
    expiring: float = 0.0
    """How often answers are gone after a moment."""

    slow: tuple[float, ...] = (0.0, 0.0, 0.02)
    late: tuple[float, ...] = (0.02,)
    """How often one partition of a fetch comes later than the others."""

    rest: tuple[int, int] = (0, 6)
    """How many ordinary steps there are around its scenes."""

    faulty: float = 0.3
    """How often anything breaks beside what the scenes break."""


def _gap(rng: Random) -> float:
    return rng.choice([0.02, 0.3, 1.0])


# Guards.


def _window(rng: Random) -> str:
    # Who was killed is missed, and followed, only after ten seconds: his window must be longer.
    seconds, crash = rng.choice([(5, ""), (20, "; 0.8 away governor 1"), (20, "; 0.4 away governor 4")])
    return f"0 budget window 1 {seconds}; 0.2 pods 3 3; 1 taint all now{crash}; {rng.choice([6, 13])} wait"


def _leave_kept(rng: Random) -> str:
    """Leave is given one after the other while nobody can use it: eviction is away, or stands still for a while."""
    seconds, gone = rng.choice([(5, "away eviction 20"), (5, "away eviction 20"), (3, "stop eviction 8")])
    return f"0 budget window 1 {seconds}; 0.2 pods 5 3; 1 taint all now; {rng.choice([1, 2])} {gone}; 25 wait"


def _leave_overtaken(rng: Random) -> str:
    """Leave is given while eviction is away, and a budget comes that gives none."""
    return (
        f"0 pods 2 3; 1 pause-all; 0.3 taint all now; {rng.choice([0.5, 1])} away eviction {rng.choice([5, 7])}; "
        f"0.3 resume-all; {rng.choice([1, 2])} budget concurrent 0; 9 wait"
    )


def _concurrency(rng: Random) -> str:
    away = rng.choice(["", "", "away placement 13; 0.1 "])
    return (
        f"0 budget concurrent {rng.choice([1, 2])}; 0.2 pods {rng.choice([3, 4])} 3; 1 {away}taint all now; "
        f"{rng.choice([0.3, 1])} {rng.choice(['away governor 1', 'wait', 'wait'])}; 3 wait"
    )


def _disruption(rng: Random) -> str:
    replicas = rng.choice([2, 3])
    least = rng.choice([1, replicas - 1, replicas])
    return f"0 deploy web {replicas}; 0.5 disruption {least}; 0.5 taint all now; {rng.choice([1, 3])} untaint all now"


def _relabelled(rng: Random) -> str:
    """A pod gets other labels while its eviction is held, by which another budget selects it, or none any more."""
    if rng.random() < 0.5:
        return (
            f"0 pods 2 3; 0.2 label q0 web; 0 label q1 canary; 0 disruption 2; 0.5 pause-all; 0.3 taint all now; "
            f"{rng.choice([0.3, 1])} label q1 web; {_gap(rng)} resume-all; 3 wait"
        )
    return (
        f"0 pods 2 3; 0.2 label q0 web; 0 budget-of web 0; 1 taint all now; {rng.choice([0.3, 1])} label q0 canary; "
        f"{rng.choice(['3 wait', '0.1 away governor 1'])}"
    )


# Answers.


def _lost_answer(rng: Random) -> str:
    # Resumed while eviction is away, or stands still, answered, and the answer gone before it is back.
    return (
        f"0 pods 2 3; 1 pause-all; {_gap(rng)} taint all now; {rng.choice([0.3, 1])} {rng.choice(['away', 'stop'])} "
        f"eviction {rng.choice([5, 8])}; {rng.choice([0.2, 1])} resume-all; 8 wait"
    )


def _paused_again(rng: Random) -> str:
    skew = rng.choice(["", "skew governor 1.9; 0.1 ", "skew eviction -1.5; 0.1 "])
    return (
        f"0 {skew}pods 2 3; 1 pause-all; 0.3 taint all now; {rng.choice([0.5, 1])} "
        f"{rng.choice(['away', 'stop', 'stop', 'stop'])} eviction {rng.choice([4, 7])}; 0.3 resume-all; "
        f"{rng.choice([0.2, 0.5])} pause-all; 9 resume-all"
    )


def _paused_meanwhile(rng: Random) -> str:
    """A pause is declared, and eviction stands still until the deadline is over."""
    return (
        f"0 pod t0 maint=3; 0 pod t1 maint=2; 0.8 taint all maint; {_gap(rng)} stop eviction {rng.choice([4, 5])}; "
        f"0.5 pause-all; 7 resume-all"
    )


def _just_paused(rng: Random) -> str:
    """A pause is declared, and a moment later something comes due."""
    return f"0 pods 2 3; 1 pause-all; {rng.choice([0.08, 0.15])} taint all now; 4 resume-all"


def _asked_anew(rng: Random) -> str:
    """The leave to go comes when the eviction was cancelled and has asked once more."""
    return (
        f"0 budget concurrent 2; 0 pods 2 3; 1 stop governor 0.6; 0.05 taint all now; {rng.choice([0.35, 0.45])} "
        f"stop eviction {rng.choice([1.5, 2])}; 0.5 untaint all now; {rng.choice([0.05, 0.2])} taint all now; 3 wait"
    )


# Deadlines.


def _two_deadlines(rng: Random) -> str:
    keys = rng.choice(["maint gpu", "gpu maint"]).split()
    return (
        f"0 pod t0 maint=8,gpu=3; 0.5 taint all {keys[0]}; {rng.choice([0.3, 1])} taint all {keys[1]}; "
        f"{rng.choice(['0.5 wait', f'1 untaint all {keys[1]}', f'1 untaint all {keys[0]}'])}"
    )


def _lifted_meanwhile(rng: Random) -> str:
    """Eviction is away; the taint goes before the deadline, and the timer fires all the same."""
    again = rng.choice(["", "; 0.2 taint all maint; 0.05 untaint all maint"])
    gone = rng.choice(["away eviction 3", "stop eviction 5", "stop eviction 5"])
    return (
        f"0 pod t0 maint=4; 0 pod t1 maint=3; 0.8 taint all maint; {_gap(rng)} {gone}; "
        f"{rng.choice([0.3, 1.5])} untaint all maint{again}; 11 wait"
    )


def _not_worked_in(rng: Random) -> str:
    """The taint was taken away, and the taint-manager has not read that when the deadline comes."""
    gone = rng.choice(["stop taint-manager 6", "away taint-manager 2"])
    return (
        f"0 pod t0 maint=4; 0 pod t1 maint=3; 0.8 taint all maint; {_gap(rng)} {gone}; 0.3 untaint all maint; 11 wait"
    )


def _saved_on_its_way(rng: Random) -> str:
    """Just before the deadline something is accepted that saves a pod, and a service before eviction is away."""
    taint, accepted = rng.choice(
        [
            ("taint all maint", "pod-again t0 maint=60; 0 pod-again t1 maint=60"),
            ("report n0 False", "report n0 True"),
        ]
    )
    gone = rng.choice(["placement", "condition-ingest", "taint-manager"])
    return (
        f"0 pod t0 maint=4; 0 pod t1 maint=3; 0.8 {taint}; 1 {rng.choice(['stop', 'away'])} {gone} "
        f"{rng.choice([2, 6])}; {rng.choice([0.3, 1.2])} {accepted}; 11 wait"
    )


def _stands_still(rng: Random) -> str:
    """Eviction stops in the middle of a decision, or of writing it, and goes on when the taint is gone."""
    stop = rng.choice([f"stop-in eviction {rng.randint(10, 160)} 4", "stop-writing eviction 8"])
    return f"0 pods 2 3; 1 {stop}; 0 taint all now; 0.4 untaint all now; 9 wait"


# Clocks.


def _wrong_clock(rng: Random) -> str:
    """One service has a wrong clock, from the beginning or from some moment on: deadlines, pauses and reports go on."""
    service = rng.choice(["condition-ingest", "taint-manager", "governor", "placement", "eviction", "timer", "timer"])
    wrong = f"skew {service} {rng.choice([600, -600, 600, -600, 0.9, -0.9])}"
    between = rng.choice(["pause-all; 3 resume-all", "wait", f"away {service} 1", "report n0 False"])
    return rng.choice(
        [
            f"0 {wrong}; 0 pod t0 maint=4; 0 pod t1 maint=7; 0.8 taint all maint; {_gap(rng)} {between}; 9 wait",
            f"0 pod t0 maint=4; 0 pod t1 maint=7; 0.8 taint all maint; {_gap(rng)} {wrong}; 0.5 {between}; 9 wait",
            f"0 {wrong}; 0 pods 3 3; 0.8 report n0 False; {rng.choice([1, 2.5])} report n0 True; 9 wait",
            f"0 budget concurrent 1; 0 pods 3 3; 0.8 taint all now; 0.5 {wrong}; 12 wait",
        ]
    )


def _hasty_timer(rng: Random) -> str:
    """The timer's clock is ahead, by less than is corrected: it fires early, and the eviction must wait."""
    return (
        f"0 skew timer {rng.choice([0.5, 0.9])}; 0 pod t0 maint=4; 0 pod t1 maint=3; 0.8 taint all maint; "
        f"{rng.choice(['9 wait', '3.3 untaint all maint', '1 away eviction 1; 9 wait'])}"
    )


# Zones.


def _partial(rng: Random) -> str:
    lost = rng.choice([3, 3, 4])
    names = "; 0 ".join(f"report n{number} {rng.choice(['False', 'Unknown'])}" for number in range(lost))
    return f"0 pods 2 3; 0.5 {names}; {rng.choice([2, 5])} {rng.choice(['report all True', 'wait', 'report n3 False'])}"


def _granted_meanwhile(rng: Random) -> str:
    """The leave for a node comes while the taint-manager is away, and the node is ready again before it is back."""
    return (
        f"0 pods 4 {rng.choice([0, 3])}; 1 report n0 False; 0 report n1 False; {rng.choice([0.3, 0.6])} "
        f"away taint-manager {rng.choice([5, 7])}; {rng.choice([0.5, 0.7, 4.5])} report all True; 11 wait"
    )


def _granted_and_granted(rng: Random) -> str:
    """Many nodes of a zone wait for their turns, and the taint-manager is away for several of them."""
    more = "; 0 ".join(f"node more{number} a" for number in range(6))
    lost = "; 0 ".join(f"report n{number} {rng.choice(['False', 'Unknown'])}" for number in range(4))
    return (
        f"0 {more}; 0 pods 4 {rng.choice([3, 20])}; 1 {lost}; {rng.choice([0.3, 0.6])} away taint-manager 18; "
        f"{rng.choice(['1 wait', '0.8 away governor 1', '8 away governor 1'])}; 24 wait"
    )


def _whole_fleet(rng: Random) -> str:
    """A node waits for its turn; the governor is away, and the whole fleet is lost meanwhile."""
    lost = rng.choice(["False", "Unknown"])
    return (
        f"0 pods 2 3; 1 report n0 False; 0 report n1 False; {rng.choice([0.3, 0.6])} away governor 2; "
        f"0.5 report all {lost}; 13 report all True"
    )


def _members(rng: Random) -> str:
    after = rng.choice(["drop Node n0", "report n0 True", "away taint-manager 1; 0.5 drop Node n0"])
    return f"0.3 report n0 {rng.choice(['False', 'Unknown'])}; {_gap(rng)} {after}; 1 wait"


# Holds.


def _half_a_hold(rng: Random) -> str:
    status = rng.choice(["False", "Unknown"])
    return (
        f"0 pods 1 0; 1 report n0 {status}; {rng.choice([0.5, 1.5])} away taint-manager {rng.choice([3, 5])}; "
        f"0.3 report n0 True; 5 wait"
    )


def _held_over(rng: Random) -> str:
    # For not being ready the governor's leave comes, too, and has the node looked at once more.
    said = rng.choice(["report n0 False", "burst 2", "burst 2"])
    return f"0.5 {said}; {rng.choice([0.3, 1.5])} away taint-manager {rng.choice([1, 5])}; 5 wait"


def _hold_ends(rng: Random) -> str:
    return f"0.5 report n0 False; {rng.choice([2.3, 2.7, 3.5])} report n0 True; 1 wait"


# Sources.


def _backlog_of_beats(rng: Random) -> str:
    """A source speaks all the time; who hears it is away for longer than its grace period."""
    return (
        f"0.5 report n0 True; 0.2 away condition-ingest {rng.choice([7, 8])}; "
        f"{rng.choice([3, 5])} report n0 {rng.choice(['True', 'False'])}; 2 report n0 True; 3 report n0 True"
    )


def _late_report(rng: Random) -> str:
    first, gap, late = rng.choice(["True", "False"]), _gap(rng), rng.choice(["True", "False"])
    return f"0.5 report n0 {first}; {gap} report n0 {late} 4; 1 wait"


def _just_declared(rng: Random) -> str:
    name = rng.choice(["new0", "new1", "new2"])
    return f"0 node {name} a; {rng.choice([0, 0.01])} report {name} {rng.choice(['True', 'False'])}; 1 drop Node {name}"


# Made again.


def _made_again(rng: Random) -> str:
    return (
        f"0.5 taint n0 {rng.choice(['maint', AT_ONCE])}; 0.5 report n0 False; 1 away taint-manager 13; 0.3 "
        f"drop Node n0; {rng.choice([0.3, 2])} node n0 a; 14 wait"
    )


def _reported_before(rng: Random) -> str:
    """What was reported waits while the node is deleted and made again."""
    return (
        f"0.5 away condition-ingest 11; 0.5 report n0 {rng.choice(['True', 'False'])}; {rng.choice([0.3, 3])} "
        f"drop Node n0; {rng.choice([3, 4])} node n0 a; 9 wait"
    )


def _reported_at_once(rng: Random) -> str:
    """One node after the other is deleted and made again, and reported on before that is news everywhere."""
    names = [f"again{number}" for number in range(1, 7)]
    made = "; 0 ".join(f"node {name} a; 0 report {name} True" for name in names)
    again = "; ".join(
        f"{rng.choice([0.02, 0.2])} drop Node {name}; 0 node {name} a; 0 report {name} False" for name in names
    )
    return f"0.5 {made}; {rng.choice([0.5, 2])} wait; {again}; 2 wait"


def _two_edits(rng: Random) -> str:
    """Two edits of a node's taints wait, and the record of the first is cleaned away."""
    return f"0.5 away taint-manager 13; {_gap(rng)} taint n0 maint; 0.3 taint n0 {rng.choice(['gpu', 'old'])}; 15 wait"


def _only_record(rng: Random) -> str:
    """The one record that says how far its writer had read is deleted, cleaned away, and the writer is killed again."""
    return (
        f"0.5 node again0 a; 2 report again0 True; {rng.choice([0.1, 0.4])} away condition-ingest 0.3; 4 "
        f"drop Node again0; 62 node again0 a; 1 away condition-ingest 0.3; 2 wait"
    )


def _workload_again(rng: Random) -> str:
    """A pod is made again under its name, while the eviction of the one before stands."""
    return (
        f"0 pods 1 3; 0.5 stop-requested 5; 0 taint all now; 0.8 drop Pod q0; 0.2 untaint all now; "
        f"{_gap(rng)} pods 1 3; 0.5 touch q0; 5 wait"
    )


# What breaks at an exact moment.


def _killed_at(rng: Random) -> str:
    acts = {
        "condition-ingest": "burst 4",
        "taint-manager": "taint all now; 0 report n0 False",
        "eviction": "taint all now",
        "governor": "report n0 False",
        "placement": "pods 3 3",
        "timer": "taint all maint",
    }
    service = rng.choice(["condition-ingest", "condition-ingest", *acts])
    crash = rng.choice(
        [
            f"crash-in {service} {rng.randint(5, 120)}",
            f"crash-written {service} offsets",
            f"crash-written {service} records",
        ]
    )
    return f"0 pods 1 3; {rng.choice([0.5, 2])} {crash}; 0 {acts[service]}; 2 untaint all now; 10 wait"


def _rebalance(rng: Random) -> str:
    service = rng.choice(["condition-ingest", "condition-ingest", "taint-manager"])
    back = rng.choice([0.1, 0.5])
    return f"0.5 stream {rng.choice([60, 100])} {rng.choice([0.01, 0.03])}; 0.3 crash-one {service} {back}; 5 wait"


def _lost_markers(rng: Random) -> str:
    service = rng.choice(["condition-ingest", "condition-ingest", "taint-manager", "eviction"])
    after = rng.choice(["wait", f"away {service} 1"])
    seconds = rng.choice([1, 7])
    if service == "condition-ingest" and rng.random() < 0.5:
        # Of reports that come without end, a transaction that holds offsets, too.
        return f"0.5 stream 80 0.02; 0.2 hang-writing {service} offsets {seconds}; 8 {after}; 2 wait"
    act = {"condition-ingest": "burst 3", "taint-manager": "report n0 False", "eviction": "taint all now"}[service]
    return f"0 pods 1 3; 1 hang-writing {service} records {seconds}; 0 {act}; 9 {after}; 2 wait"


# Karmada clusters.


def _clusters_at_once(rng: Random) -> str:
    crash = rng.choice(["", "; 0.3 away governor 1"])
    return (
        f"0 configmaps {rng.choice([1, 2])}; 2 taint c0 now; 0 taint c1 now{crash}; 3 untaint c0 now; 0 untaint c1 now"
    )


def _claimed(rng: Random) -> str:
    claims = "; 0.05 ".join(f"claim w{number}; 0 deploy w{number} {rng.choice([1, 2])}" for number in range(4))
    return f"0 {claims}; {_gap(rng)} away placement 1; 2 wait"


# Managed clusters.


def _joins(rng: Random) -> str:
    """A cluster is declared and reported available while the taint-manager is away, or has not read either."""
    away = rng.choice(["away taint-manager 1; 0.3 ", "stop taint-manager 2; 0.3 ", ""])
    return f"0.5 {away}managed m4; {rng.choice([1, 11])} wait"


# Requests to leave.


def _withdrawn(rng: Random) -> str:
    """A request is withdrawn before its deadline, while eviction is away, stands still or reads."""
    gone = rng.choice(["away eviction 4", "stop eviction 5", "stop eviction 5", "wait"])
    return (
        f"0 pod t0 maint=60; 0.8 leave t0 drain {rng.choice([2, 3])}; {_gap(rng)} {gone}; "
        f"{rng.choice([0.2, 0.9])} withdraw t0 drain; 9 wait"
    )


def _just_withdrawn(rng: Random) -> str:
    """A request is withdrawn a moment before its deadline, or before the end of a pause."""
    if rng.random() < 0.5:
        return f"0 pod t0 maint=60; 0.8 leave t0 drain 1; {rng.choice([0.9, 0.95, 0.98])} withdraw t0 drain; 9 wait"
    return (
        f"0 pod t0 maint=60; 0.8 pause-all; 0.3 leave t0 drain now; {rng.choice([0.5, 2])} withdraw t0 drain; "
        f"{rng.choice([0.005, 0.01, 0.02])} resume-all; 9 wait"
    )


def _two_requesters(rng: Random) -> str:
    """Two requesters, of which one may withdraw."""
    first, second = rng.choice([("2", "5"), ("5", "2"), ("3", "3")])
    away = rng.choice(["", "0.1 away eviction 1; "])
    withdraw = rng.choice(["wait", "withdraw t0 one", "withdraw t0 two"])
    return (
        f"0 pod t0 maint=60; 0.8 leave t0 one {first}; {_gap(rng)} leave t0 two {second}; {_gap(rng)} {withdraw}; "
        f"{away}9 wait"
    )


def _earlier_of_both(rng: Random) -> str:
    """A taint is tolerated for some time, and a request has another deadline."""
    tolerated, asked = rng.choice([2, 4]), rng.choice([1, 3, 6])
    then = rng.choice(["untaint all maint", "withdraw t0 drain", "wait"])
    return (
        f"0 pod t0 maint={tolerated}; 0.8 taint all maint; {_gap(rng)} leave t0 drain {asked}; "
        f"{rng.choice([0.3, 1])} {then}; 9 wait"
    )


def _held_then_withdrawn(rng: Random) -> str:
    """A pause holds what is requested, and ends when the request is withdrawn, or a moment later."""
    return (
        f"0 pod t0 maint=60; 0 pod t1 maint=60; 0.8 pause-all; 0.3 leave t0 drain now; 0 leave t1 drain now; "
        f"{_gap(rng)} withdraw t0 drain; {rng.choice([0.02, 0.3])} {rng.choice(['resume-all', 'away eviction 2'])}; "
        f"1 resume-all; 9 wait"
    )


def _made_again_meanwhile(rng: Random) -> str:
    """A pod is deleted and made again; the request is for the one before."""
    return (
        f"0 pod t0 maint=60; 0.8 leave t0 drain {rng.choice([2, 4])}; {_gap(rng)} drop Pod t0; "
        f"{rng.choice([0.1, 0.5])} pod t0 maint=60; 9 wait"
    )


_INF: Final = math.inf

# TaintPolicies.


_POLICED: Final = (("Node", "n0"), ("Cluster", "c0"), ("ManagedCluster", "m0"))


def _policy_comes(rng: Random) -> str:
    """A policy comes, and a target breaks and is mended."""
    kind, one = rng.choice(_POLICED)
    return f"0 taint-policy {kind} all 0 NoSchedule; 0.3 broken {one} True; {_gap(rng)} broken {one} False; 1 wait"


def _policy_meanwhile(rng: Random) -> str:
    """A policy comes, or selects other targets, while the taint-manager is away."""
    kind, one = rng.choice(_POLICED)
    return (
        f"0 taint-policy {kind} !{one} 0 NoSchedule; 0.2 broken {kind} True; {_gap(rng)} away taint-manager 4; "
        f"0.5 taint-policy {kind} all 0 NoSchedule; 6 wait"
    )


def _policy_holds(rng: Random) -> str:
    """A target breaks for less than the hold, then for good, and the taint-manager may be away at its end."""
    kind, one = rng.choice(_POLICED)
    end = rng.choice(["2 wait", "1 away taint-manager 4; 6 wait", "2.8 crash-one taint-manager 1; 3 wait"])
    return (
        f"0 taint-policy {kind} all 3 NoSchedule; 0.3 broken {one} True; {rng.choice([1, 2])} broken {one} False; "
        f"{_gap(rng)} broken {one} True; {end}"
    )


def _policy_chooses(rng: Random) -> str:
    """A policy selects one target, then all but it. What it has added stays."""
    kind, one = rng.choice(_POLICED)
    return (
        f"0 broken {kind} True; 0.3 taint-policy {kind} {rng.choice([one, f'!{one}'])} 0 NoSchedule; {_gap(rng)} "
        f"{rng.choice(['wait', f'drop {kind} {one}', f'broken {one} False'])}; 1 wait"
    )


def _policy_evicts(rng: Random) -> str:
    """A policy's taint evicts, and goes before some of the work has left."""
    kind, one = rng.choice(_POLICED)
    return (
        f"0 pods 3 3; 0.5 taint-policy {kind} all {rng.choice([0, 2])} NoExecute; 0.3 broken {kind} True; "
        f"{rng.choice([0.3, 3])} broken {rng.choice([kind, one])} False; 2 wait"
    )


THEMES: Final[Mapping[str, Theme]] = {
    "budgets": Theme(
        5,
        (_window, _leave_kept, _leave_overtaken, _concurrency, _concurrency, _disruption, _relabelled),
        guarded=True,
        faulty=0.15,
    ),
    "answers": Theme(
        4,
        (_lost_answer, _paused_again, _paused_again, _paused_meanwhile, _just_paused, _just_paused, _asked_anew),
        late=(0.02, 0.3, 0.3),
        expiring=0.5,
        faulty=0.15,
    ),
    "deadlines": Theme(4, (_two_deadlines, _lifted_meanwhile, _not_worked_in, _stands_still), faulty=0.15),
    "requests": Theme(
        0,
        (
            _withdrawn,
            _just_withdrawn,
            _just_withdrawn,
            _two_requesters,
            _earlier_of_both,
            _held_then_withdrawn,
            _made_again_meanwhile,
        ),
        late=(0.02, 0.3, 0.3),
        faulty=0.15,
        rest=(0, 3),
    ),
    "on the way": Theme(0, (_saved_on_its_way,), faulty=0.15),
    "policies": Theme(
        0,
        (_policy_comes, _policy_meanwhile, _policy_holds, _policy_chooses, _policy_evicts),
        settings={
            "taint_add_hold": (0, 0, 2),
            "node_monitor_grace_period": (0,),
            "feature_gates": ("", "Failover=true"),
        },
        kinds=frozenset({"Cluster", "ManagedCluster"}),
        faulty=0.15,
    ),
    "clocks": Theme(
        0,
        (_wrong_clock, _wrong_clock, _hasty_timer),
        settings={"node_monitor_grace_period": (0, 6), "reconcile_interval": (3.0, 30.0)},
        faulty=0.15,
    ),
    "zones": Theme(
        4,
        (_partial, _granted_meanwhile, _granted_and_granted, _whole_fleet, _members),
        settings={
            "node_eviction_rate": (0.3, 0.3, _INF),
            "secondary_node_eviction_rate": (0.2,),
            "large_cluster_size_threshold": (50,),
            "node_monitor_grace_period": (0,),
            "taint_add_hold": (0, 0, 3),
        },
        nodes=(4, 6),
        zones="aaaaaaab",
        faulty=0.15,
    ),
    "holds": Theme(
        2,
        (_half_a_hold, _held_over, _hold_ends),
        settings={"taint_add_hold": (3,), "node_monitor_grace_period": (0,)},
        faulty=0.15,
    ),
    "sources": Theme(
        2,
        (_backlog_of_beats, _late_report, _just_declared),
        settings={"node_monitor_grace_period": (6,), "node_monitor_period": (0, 2)},
        nodes=(1, 2),
        faulty=0.15,
    ),
    "again": Theme(
        3,
        (_made_again, _reported_before, _reported_at_once, _two_edits, _only_record, _workload_again),
        cleaned=True,
        late=(0.02, 0.3),
        faulty=0.1,
        rest=(0, 3),
    ),
    "moments": Theme(3, (_killed_at,), faulty=0.0, rest=(0, 3)),
    "rebalances": Theme(2, (_rebalance,), workers=(2,), slow=(0.1, 0.2), faulty=0.0, rest=(0, 2)),
    "markers": Theme(3, (_lost_markers,), faulty=0.0, rest=(0, 2)),
    "managed": Theme(1, (_joins,), kinds=frozenset({"ManagedCluster"}), nodes=(1, 1), faulty=0.15),
    "clusters": Theme(
        2,
        (_clusters_at_once, _claimed),
        settings={"resource_eviction_rate": (2.0, 0.5)},
        kinds=frozenset({"Cluster"}),
        late=(0.02, 0.3),
        nodes=(1, 2),
        faulty=0.15,
    ),
}
"""By name."""


def draw_theme(rng: Random) -> str:
    """One of them, by its weight."""
    names = list(THEMES)
    (name,) = rng.choices(names, [THEMES[name].weight for name in names])
    return name
