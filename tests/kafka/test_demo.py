"""`moorage demo`, which `make demo` runs: it ends by itself, and what it claims is so."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.kafka.cli_stack import ROOT, program

from moorage.cli.demo_claims import Chain, spread, whole_story
from moorage.cli.reading import Seen
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted, Toleration
from moorage_schemas.topics import BINDINGS, CONDITIONS, EVICTIONS, TAINTS, Topic

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NODE = TargetRef(kind=TargetKind.NODE, name="n1")


@pytest.mark.kafka
async def test_the_demo_shows_the_chain_and_ends_with_0(tmp_path: Path) -> None:
    done = await program(
        sys.executable, "-m", "moorage.cli", "demo", env={"MOORAGE_STATE_DIR": str(tmp_path)}, seconds=180
    )
    assert done.code == 0, done.out + done.err
    assert "WRONG" not in done.out
    order = [
        done.out.index(word)
        for word in ("conditions  node/", "taints      node/", "Scheduled at", "timer-fired", "replaces Pod/")
    ]
    assert order[:3] == sorted(order[:3])
    assert "kept until the deadline and evicted within 1 s of it, never before" in done.out
    took = re.search(r"the chains took ([0-9.]+) s", done.out)
    assert took is not None
    assert float(took[1]) < 60
    assert not os.listdir(tmp_path)  # noqa: PTH208 - the demo leaves the user's own state alone


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


def begun(bindings: dict[str, WorkloadBound]) -> Chain:
    chain = Chain("n1", "k", "n1 is not ready", T0, needs_condition=True)
    condition = ConditionChanged(
        target=NODE,
        type="Ready",
        status=ConditionStatus.FALSE,
        last_transition_time=T0,
        last_heartbeat_time=T0,
        generation=1,
    )
    record = TaintRecord(key="k", effect="NoExecute", time_added=T0, origins=(TaintOrigin.CONDITION,))
    chain.take(seen(CONDITIONS, "Node/n1|Ready", condition, T0), bindings)
    chain.take(seen(TAINTS, "Node/n1", TargetTainted(target=NODE, generation=1, taints=(record,)), T0), bindings)
    assert chain.taint is None  # nothing is taken for this chain's before its id is known
    assert len(chain.begin("r", T0, bindings)) == 2
    return chain


def eviction(name: str, when: datetime, state: EvictionState = EvictionState.REQUESTED) -> EvictionDecided:
    pod = WorkloadRef(kind="Pod", namespace="default", name=name)
    return EvictionDecided(
        workload=pod, owner=pod, target=NODE, generation=1, revision=1, state=state, decided_time=when, deadline=when
    )


def wrong(chain: Chain) -> list[str]:
    return [claim.text for claim in chain.claims() if not claim.holds]


@pytest.mark.parametrize(
    ("seconds", "after", "holds"),
    [(3, 3.0, True), (3, 2.9, False), (3, 4.1, False), (None, 1.0, False), (0, 0.5, True), (0, 1.5, False)],
)
def test_claims_know_early_late_and_never(seconds: int | None, after: float, *, holds: bool) -> None:
    bindings = bound("p", seconds)
    chain = begun(bindings)
    when = T0 + timedelta(seconds=after)
    chain.take(seen(EVICTIONS, "x", eviction("p", when), when), bindings)
    chain.take(seen(BINDINGS, next(iter(bindings)), None, when), bindings)
    about_time = [text for text in wrong(chain) if "bare pod" not in text]
    assert (not about_time) is holds


def test_claims_miss_what_did_not_come() -> None:
    chain = Chain("n1", "k", "n1 is not ready", T0, correlation="r", needs_condition=True)
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


def test_spread_of_nothing() -> None:
    assert spread([]) == "none"
    assert spread([timedelta(milliseconds=1), timedelta(milliseconds=3)]) == "2 ms, at most 3 ms"
