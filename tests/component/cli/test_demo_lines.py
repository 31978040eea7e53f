"""Events of the demo in a few words, each in one line of a hundred columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage.cli.api.topics import Seen
from moorage.cli.demo.lines import CUT, WIDTH, brief, line
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import HeldTaint, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.timer import TimerFired
from moorage_schemas.topics import EVICTIONS
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneState

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NODE = TargetRef(kind=TargetKind.NODE, name="a2")
KEY = "node.kubernetes.io/not-ready"


def pod(name: str) -> WorkloadRef:
    return WorkloadRef(kind="Pod", namespace="shop", name=name)


def eviction(state: EvictionState, **more: Any) -> EvictionDecided:
    base = {"workload": pod("web-x"), "owner": pod("web-x"), "target": NODE, "generation": 1, "revision": 1}
    return EvictionDecided.model_validate({**base, "state": state, "decided_time": T0, **more})


def placed(state: PlacementState, **more: Any) -> WorkloadPlaced:
    base = {
        "workload": pod("web-1-new"),
        "owner": pod("web-1"),
        "owner_uid": "o",
        "uid": "u",
        "generation": 1,
        "decided_time": T0,
    }
    return WorkloadPlaced.model_validate({**base, "state": state, **more})


EVENTS: list[tuple[Model, str]] = [
    (
        ConditionChanged(
            target=NODE,
            type="Ready",
            status=ConditionStatus.FALSE,
            reason="KubeletStopped",
            last_transition_time=T0,
            last_heartbeat_time=T0,
            generation=1,
        ),
        "Ready=False (KubeletStopped)",
    ),
    (
        TargetTainted(
            target=NODE,
            generation=1,
            taints=(TaintRecord(key=KEY, effect="NoSchedule", time_added=T0, origins=(TaintOrigin.CONDITION,)),),
            held=(HeldTaint(key=KEY, effect="NoExecute", since=T0),),
        ),
        "not-ready:NoSchedule; waits for not-ready:NoExecute",
    ),
    (TargetTainted(target=NODE, generation=2), "no taints"),
    (
        eviction(EvictionState.HELD, held_by=("EvictionPause/a", "EvictionBudget/b")),
        "web-x Held by EvictionPause, EvictionBudget",
    ),
    (eviction(EvictionState.REQUESTED, reason="TolerationExpired"), "web-x Requested (TolerationExpired)"),
    (placed(PlacementState.PLACED, target=NODE, replaces="Pod/shop/web-1-old"), f"web-1-new on a2, replaces {CUT}old"),
    (placed(PlacementState.PLACED, target=NODE, replaces="Pod/shop/db-0"), "web-1-new on a2, replaces db-0"),
    (placed(PlacementState.PLACED, target=NODE), "web-1-new on a2"),
    (placed(PlacementState.EVICTED, reason="TaintEviction"), "web-1-new Evicted (TaintEviction)"),
    (
        ZoneChanged(
            zone="eu/eu-1",
            generation=1,
            state=ZoneState.PARTIAL_DISRUPTION,
            nodes=6,
            not_ready=4,
            rate=0,
            tokens=0,
            tokens_time=T0,
            waiting=4,
        ),
        "eu-1 PartialDisruption: 4/6 not ready, 4 waiting, rate 0",
    ),
    (
        NoExecuteGranted(target=NODE, zone="eu/eu-1", incident=1, generation=1, granted=True, granted_time=T0),
        "may get its NoExecute taint",
    ),
    (
        TimerFired(
            id="evict|Pod/shop/web-x|Node/a2|1",
            target=NODE,
            owner="eviction",
            generation=1,
            deadline=T0,
            fired_time=T0 + timedelta(milliseconds=3),
        ),
        "web-x due, fired 3 ms late",
    ),
]


@pytest.mark.parametrize(("event", "text"), EVENTS, ids=[text for _, text in EVENTS])
def test_an_event_in_a_few_words(event: Model, text: str) -> None:
    assert brief("key", event, "a2") == text


def test_an_event_about_another_target_names_it() -> None:
    assert brief("Node/a2", EVENTS[0][0], "eu/eu-1") == "a2 Ready=False (KubeletStopped)"


def test_a_line_fits_unless_the_whole_text_is_wanted() -> None:
    event = eviction(EvictionState.REQUESTED, workload=pod("w" * 120), reason="UntoleratedTaint")
    seen = Seen(EVICTIONS, 0, 0, "key", T0, None, event)
    short, whole = (line(seen, T0, "a2", verbose=verbose).plain for verbose in (False, True))
    assert (len(short), short.endswith(CUT)) == (WIDTH, True)
    assert whole.endswith("(UntoleratedTaint)")
