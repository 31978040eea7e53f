"""`moorage demo`, which `make demo` runs: it ends by itself, and what it claims is so."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from docs import record_demo
from tests.support import console
from tests.support.commands import program
from tests.support.forks import ROOT

from moorage.cli.api.topics import Seen
from moorage.cli.demo.acts import Hold, Outage
from moorage.cli.demo.claims import Claim, Consequences, Show, spread, whole_story
from moorage.cli.demo.command import _Demo
from moorage.cli.demo.lines import WIDTH, brief
from moorage.decide.kubernetes.taint_keys import NOT_READY
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import HeldTaint, Taint, TaintOrigin, TaintRecord, TargetTainted, Toleration
from moorage_schemas.topics import BINDINGS, CONDITIONS, EVICTIONS, TAINTS, ZONE_GRANTS, ZONES, Topic
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneState

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NODE = TargetRef(kind=TargetKind.NODE, name="n1")


@pytest.mark.kafka
async def test_the_demo_shows_the_chain_and_ends_with_0(tmp_path: Path) -> None:
    done = await program(
        sys.executable, "-m", "moorage.cli", "demo", env={"MOORAGE_STATE_DIR": str(tmp_path)}, seconds=600
    )
    assert done.code == 0, done.out + done.err
    assert "WRONG" not in done.out
    order = [done.out.index(word) for word in ("conditions ", "taints ", "Scheduled for", "timer-fired", "replaces ")]
    # Conditions and the first taints become visible at the same moment.
    assert max(order[:2]) < order[2]
    assert re.search(r"kept until the deadline and evicted within \d+ s of it, never before", done.out)
    assert "PartialDisruption: 4/" in done.out
    assert " Held by EvictionPause" in done.out
    assert max(map(len, done.out.splitlines())) <= WIDTH
    assert "--node-monitor-period 2s instead of 5s" in done.out
    assert not_recorded(done.out) == [], "record it anew: make pictures"
    assert re.search(r"step 3 took [0-9.]+ s", done.out)
    assert not os.listdir(tmp_path)  # noqa: PTH208 - the demo leaves the user's own state alone


@pytest.mark.kafka
async def test_the_demo_does_not_need_more_than_the_rights_of_each_part(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "moorage.cli", "demo", "--secure-kafka")
    done = await program(*command, env={"MOORAGE_STATE_DIR": str(tmp_path)}, seconds=600)
    assert done.code == 0, done.out + done.err
    assert "Kafka requires authentication" in done.out
    assert "every kind of outcome was shown" in done.out


# Which of the pods are on a node differs between runs.
WORKLOADS = sorted(
    {
        re.sub(r"-\d+$", "", document["metadata"]["name"])
        for path in sorted((ROOT / "examples" / "fleet").glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text("utf-8"))
        if document["kind"] in {"DaemonSet", "Deployment", "Pod", "StatefulSet"}
    }
)
SHAPES = (
    (r"\b(eu-west/)?eu-west-[abc]\b", "ZONE"),
    (r"\bEvictionPause/\S+", "PAUSE"),
    # The name of a replica ends in random letters, which `console.normal` has replaced; others do not.
    (r"…\w+|…<id>", "POD"),
    (rf"\b({'|'.join(WORKLOADS)})-[\w-]+(<id>)?", "POD"),
    (r"\b[abc]\d\b", "NODE"),
    (r"NODE(, NODE)+", "NODES"),
    (r"\+?\b\d+(\.\d+)?s?\b", "N"),
    (r"\s+", " "),
)


def shape(line: str) -> str:
    """What a line of the demo says, whatever it says it of."""
    text = console.normal(line)
    for pattern, word in SHAPES:
        text = re.sub(pattern, word, text)
    return text.strip()


def not_recorded(out: str) -> list[str]:
    """The shapes of lines that the demo writes and its recording lacks, or the other way round.

    Only a busy machine takes so long that lines state what is waited for.
    """
    written = {shape(line) for line in out.splitlines() if line.strip() and "so far" not in line}
    recorded = {
        shape(line) for line in record_demo.text_of(record_demo.PICTURE.read_text("utf-8")) if "so far" not in line
    }
    return sorted(written ^ recorded)


def test_a_recording_lacks_what_the_demo_did_not_write_then() -> None:
    recorded = record_demo.text_of(record_demo.PICTURE.read_text("utf-8"))
    out = "\n".join(recorded)
    assert not_recorded(out) == []
    assert not_recorded(f"{out}\n   a new line") == ["a new line"]
    assert not_recorded(out.replace("Declare the fleet", "Apply the fleet")) == [
        "N. Apply the fleet",
        "N. Declare the fleet",
    ]


def test_every_pod_of_the_examples_has_the_same_shape() -> None:
    assert {"checkout", "index", "node-agent", "orders-db"} < set(WORKLOADS), (
        "with owners of every kind, and without one"
    )
    lines = {shape(f"   19:44:46  +0.039s  a4  evictions     {name}-2 Held by EvictionPause") for name in WORKLOADS}
    assert lines == {"<clock> N NODE evictions POD Held by EvictionPause"}


def test_the_picture_holds_what_was_recorded() -> None:
    picture = record_demo.draw([(0.0, "\x1b[1mone\x1b[0m  two"), (9.0, ""), (9.5, "a < b & c")])
    assert record_demo.text_of(picture) == ["one  two", "a < b & c"]
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", ""), "nothing is fetched to show it"
    ET.fromstring(picture)  # noqa: S314 - our own picture


async def test_the_demo_says_when_the_examples_are_missing(tmp_path: Path) -> None:
    done = await program(sys.executable, "-m", "moorage.cli", "demo", "--examples", str(tmp_path))
    assert (done.code, done.out) == (1, "")
    assert str(tmp_path) in done.err


def test_make_demo_runs_it() -> None:
    assert "\n\t@$(BIN)/moorage demo\n" in (ROOT / "Makefile").read_text("utf-8")


# What the demo's own checks say about chains that are not as they should be.


def seen(topic: Topic, key: str, event: Model | None, when: datetime, chain: str = "r") -> Seen:
    meta = Meta(id=f"{key}{when}", source="test", type=topic.event_type, time=when, correlation_id=chain)
    return Seen(topic, 0, 0, key, when, meta, event)


def bound(name: str, seconds: int | None) -> dict[str, WorkloadBound]:
    pod = WorkloadRef(kind="Pod", namespace="default", name=name)
    toleration = Toleration(operator="Exists", toleration_seconds=seconds)
    binding = WorkloadBound(
        workload=pod, uid=name, owner=pod, target=NODE, generation=1, tolerations=(toleration,), bound_time=T0
    )
    return {f"{pod}|{NODE}": binding}


def begun(bindings: dict[str, WorkloadBound], *before: Seen) -> Consequences:
    chain = Consequences("n1", "k", "n1 is not ready", T0, needs_condition=True)
    condition = ConditionChanged(
        target=NODE,
        type="Ready",
        status=ConditionStatus.FALSE,
        last_transition_time=T0,
        last_heartbeat_time=T0,
        generation=1,
    )
    record = TaintRecord(key="k", effect="NoExecute", time_added=T0, origins=(TaintOrigin.CONDITION,))
    events = [
        seen(CONDITIONS, "Node/n1|Ready", condition, T0),
        seen(TAINTS, "Node/n1", TargetTainted(target=NODE, generation=1, taints=(record,)), T0),
    ]
    for event in (*before, *events):
        chain.take(event, bindings)
        if event.topic is BINDINGS:
            del bindings[event.key]
    assert chain.taint is None  # nothing is taken for this chain's before its id is known
    assert len(chain.begin("r", T0, bindings)) == 2 + len(before)
    return chain


def eviction(name: str, when: datetime, state: EvictionState = EvictionState.REQUESTED) -> EvictionDecided:
    pod = WorkloadRef(kind="Pod", namespace="default", name=name)
    return EvictionDecided(
        workload=pod, owner=pod, target=NODE, generation=1, revision=1, state=state, decided_time=when, deadline=when
    )


def wrong(chain: Consequences) -> list[str]:
    return [claim.text for claim in chain.claims() if not claim.holds]


@pytest.mark.parametrize(
    ("seconds", "after", "holds"),
    [(3, 3.0, True), (3, 2.9, False), (3, 63.1, False), (None, 1.0, False), (0, 0.5, True), (0, 60.5, False)],
)
def test_claims_know_early_late_and_never(seconds: int | None, after: float, *, holds: bool) -> None:
    bindings = bound("p", seconds)
    chain = begun(bindings)
    when = T0 + timedelta(seconds=after)
    chain.take(seen(EVICTIONS, "x", eviction("p", when), when), bindings)
    chain.take(seen(BINDINGS, next(iter(bindings)), None, when), bindings)
    about_time = [text for text in wrong(chain) if "bare pod" not in text]
    assert (not about_time) is holds


@pytest.mark.parametrize(("ended", "counts"), [(4.0, True), (-1.0, False)])
def test_a_binding_counts_whose_end_is_read_before_the_taint(ended: float, *, counts: bool) -> None:
    bindings = bound("p", 3)
    chain = begun(bindings, seen(BINDINGS, next(iter(bindings)), None, T0 + timedelta(seconds=ended)))
    assert bool(chain.fates) is counts
    assert all(fate.ended for fate in chain.fates.values())


@pytest.mark.parametrize(("after", "words"), [(3.0, "within 1 s of it"), (4.2, "within 2 s of it")])
def test_a_claim_names_how_late_evictions_were(after: float, words: str) -> None:
    bindings = bound("p", 3)
    chain = begun(bindings)
    when = T0 + timedelta(seconds=after)
    chain.take(seen(EVICTIONS, "x", eviction("p", when), when), bindings)
    assert any(words in claim.text for claim in chain.claims())


def test_claims_miss_what_did_not_come() -> None:
    chain = Consequences("n1", "k", "n1 is not ready", T0, correlation="r", needs_condition=True)
    assert len(wrong(chain)) == 2
    assert not chain.complete
    assert not whole_story([chain]).holds
    waiting = begun(bound("p", 3))
    assert not waiting.complete
    assert wrong(waiting)


def test_claims_see_an_eviction_of_another_chain() -> None:
    bindings = bound("p", 3)
    chain = begun(bindings)
    chain.take(seen(EVICTIONS, "x", eviction("p", T0), T0, chain="another"), bindings)
    assert "one correlation id from the cause to every eviction" in wrong(chain)


# The acts in which something is held back.


def zone(state: ZoneState, waiting: int) -> Seen:
    event = ZoneChanged(
        zone="eu/1",
        generation=1,
        state=state,
        nodes=4,
        not_ready=waiting,
        rate=0.1,
        tokens=1,
        tokens_time=T0,
        waiting=waiting,
    )
    return seen(ZONES, "eu/1", event, T0)


@pytest.mark.parametrize("waiting", [0, 1])
def test_the_line_of_a_zone_with_a_rate_is_the_same_however_quickly_its_node_got_a_grant(waiting: int) -> None:
    event = zone(ZoneState.NORMAL, 1).event
    assert isinstance(event, ZoneChanged)
    told = brief("eu/1", event.model_copy(update={"waiting": waiting}), "n1")
    assert told == "1 Normal: 1/4 not ready, 1 every 10s"
    stopped = event.model_copy(update={"waiting": 1, "rate": 0.0, "stopped": True})
    assert brief("eu/1", stopped, "n1") == "1 Normal: 1/4 not ready, 1 waiting, rate 0"


def tainted(*, held: bool, effect: str = "NoSchedule") -> Seen:
    record = TaintRecord(key=NOT_READY, effect=effect, time_added=T0, origins=(TaintOrigin.CONDITION,))
    waits = (HeldTaint(key=NOT_READY, effect="NoExecute", since=T0),) if held else ()
    return seen(TAINTS, "Node/n1", TargetTainted(target=NODE, generation=1, taints=(record,), held=waits), T0)


def outage() -> Outage:
    return Outage("eu/1", frozenset({"Node/n1"}), T0)


def not_so(claims: list[Claim]) -> list[bool]:
    return [claim.holds for claim in claims]


def test_an_outage_that_is_held_back_and_over() -> None:
    act = outage()
    assert not_so(act.claims()) == [False, True, False]
    assert act.take(tainted(held=True))
    assert not act.take(zone(ZoneState.NORMAL, 1)), "it may be passed too quickly to be seen"
    assert act.take(zone(ZoneState.PARTIAL_DISRUPTION, 1))
    assert not act.take(zone(ZoneState.PARTIAL_DISRUPTION, 1))  # the same is told once
    assert (act.stopped, act.over) == (True, False)
    act.take(tainted(held=False))
    act.take(zone(ZoneState.NORMAL, 0))
    assert (act.stopped, act.over) == (False, True)
    assert not_so(act.claims()) == [True, True, True]
    assert not act.take(seen(ZONES, "eu/2", None, T0))


def test_an_outage_that_strikes() -> None:
    grant = NoExecuteGranted(target=NODE, zone="eu/1", incident=1, generation=1, granted=True, granted_time=T0)
    for event in (
        tainted(held=False, effect="NoExecute"),
        seen(ZONE_GRANTS, "Node/n1", grant, T0),
        seen(EVICTIONS, "x", eviction("p", T0), T0),
    ):
        act = outage()
        act.take(event)
        assert not not_so(act.claims())[1]


def hold(*, resumed: bool) -> Hold:
    taint = Taint(key="k", effect="NoExecute")
    pod = WorkloadRef(kind="Pod", namespace="default", name="p")
    free = WorkloadBound(workload=pod, uid="p", owner=pod, target=NODE, generation=1, bound_time=T0)
    act = Hold.of(NODE, "EvictionPause/x", taint, T0, {**bound("stays", None), "p": free})
    act.resumed = T0 + timedelta(seconds=5) if resumed else None
    return act


def held(by: str) -> Seen:
    event = eviction("p", T0, EvictionState.HELD).model_copy(update={"held_by": (by,) if by else ()})
    return seen(EVICTIONS, "x", event, T0)


def test_evictions_are_paused_on_a_node_that_nothing_was_done_to(monkeypatch: pytest.MonkeyPatch) -> None:
    demo = _Demo(Path(), Show(), "", "", "")
    pods = {name: [f"{name}-{i}" for i in range(count)] for name, count in (("lost", 3), ("chained", 2), ("left", 1))}
    refs = {pod: WorkloadRef(kind="Pod", namespace="default", name=pod) for names in pods.values() for pod in names}
    monkeypatch.setattr(demo, "_nodes", dict.fromkeys(pods, "eu/1"))
    monkeypatch.setattr(
        demo,
        "_bindings",
        {
            pod: WorkloadBound(
                workload=refs[pod],
                uid=pod,
                owner=refs[pod],
                target=TargetRef(kind=TargetKind.NODE, name=name),
                generation=1,
                bound_time=T0,
            )
            for name, names in pods.items()
            for pod in names
        },
    )
    assert demo._busy().name == "lost"
    monkeypatch.setattr(demo, "_outage", Outage("eu/1", frozenset({"Node/lost"}), T0))
    assert demo._busy().name == "chained"
    monkeypatch.setattr(demo, "_chains", [Consequences("chained", "k", "is tainted", T0)])
    assert demo._busy().name == "left"


def test_a_hold_that_holds_and_lets_go() -> None:
    act = hold(resumed=True)
    assert act.bound == {"Pod/default/p"}
    assert not act.take(held(""))  # it only asks yet
    assert act.take(held("EvictionPause/x"))
    assert act.holding
    assert not act.over
    act.take(seen(EVICTIONS, "x", eviction("p", T0 + timedelta(seconds=6)), T0))
    assert not_so(act.claims()) == [True, True, True]


def test_a_hold_that_does_not() -> None:
    assert not_so(hold(resumed=True).claims()) == [False, True, False]
    other = hold(resumed=True)
    other.take(held("EvictionBudget/y"))
    assert not_so(other.claims())[0] is False
    for resumed in (True, False):
        early = hold(resumed=resumed)
        early.take(seen(EVICTIONS, "x", eviction("p", T0 + timedelta(seconds=4)), T0))
        assert not_so(early.claims())[1] is False


def test_what_waits_is_told_of_a_chains_node() -> None:
    chain = Consequences("n1", NOT_READY, "n1 is not ready", T0, correlation="r", needs_condition=True)
    assert chain.take(tainted(held=True), {})
    assert not chain.take(tainted(held=False), {})
    assert chain.taint is None


def test_spread_of_nothing() -> None:
    assert spread([]) == "none"
    assert spread([timedelta(milliseconds=1), timedelta(milliseconds=3)]) == "2 ms, at most 3 ms"
