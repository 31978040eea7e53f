"""What examples/deployer.py prints of the events that it reads."""

from __future__ import annotations

import asyncio
import importlib.util
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.architecture.files import ROOT

from moorage_schemas.base import Model
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
POD = WorkloadRef(kind="Pod", namespace="shop", name="web")
NODE = TargetRef(kind=TargetKind.NODE, name="n1")


@pytest.fixture
def deployer() -> Any:
    spec = importlib.util.spec_from_file_location("example_deployer", ROOT / "examples" / "deployer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def message(event: Model) -> Any:
    return SimpleNamespace(body=event.model_dump_json().encode())


def eviction(state: EvictionState, **fields: Any) -> EvictionDecided:
    given = {
        "workload": POD,
        "owner": POD,
        "target": NODE,
        "state": state,
        "decided_time": NOW,
        "generation": 1,
        "revision": 1,
    }
    return EvictionDecided.model_validate({**given, **fields})


def test_evictions(deployer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for event in (
        eviction(EvictionState.SCHEDULED, deadline=NOW),
        eviction(EvictionState.HELD),  # as long as nothing has answered
        eviction(EvictionState.HELD, held_by=("EvictionPause/all",)),
        eviction(EvictionState.REQUESTED, reason="TolerationExpired"),
        eviction(EvictionState.CANCELLED),
    ):
        asyncio.run(deployer.on_eviction(message(event)))
    assert capsys.readouterr().out.splitlines() == [
        "prepare Pod/shop/web on Node/n1: must leave at 2026-01-01T12:00:00Z",
        "wait Pod/shop/web on Node/n1: held by EvictionPause/all",
        "evict Pod/shop/web on Node/n1: TolerationExpired",
        "keep Pod/shop/web on Node/n1",
    ]


@pytest.mark.parametrize(
    ("kind", "printed"), [("Pod", "wait Pod/shop/web: Unschedulable\n"), ("PlacementDecision", "")]
)
def test_what_waits_for_a_place(deployer: Any, capsys: pytest.CaptureFixture[str], kind: str, printed: str) -> None:
    workload = WorkloadRef(kind=kind, namespace="shop", name="web")
    placed = WorkloadPlaced(
        workload=workload,
        uid="1",
        owner=workload,
        owner_uid="1",
        generation=1,
        state=PlacementState.PENDING,
        reason="Unschedulable",
        decided_time=NOW,
    )
    asyncio.run(deployer.on_placement(message(placed)))
    assert capsys.readouterr().out == printed
