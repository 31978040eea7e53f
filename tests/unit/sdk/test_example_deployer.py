"""What examples/deployer.py does: workloads are files in a folder."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.files import ROOT

from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_sdk import Remove, Running

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
POD = WorkloadRef.parse("Pod/shop/web")
NODE = TargetRef.parse("Node/n1")


@pytest.fixture
def example() -> Any:
    spec = importlib.util.spec_from_file_location("example_deployer", ROOT / "examples" / "deployer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bound(uid: str = "a", revision: int = 1) -> WorkloadBound:
    return WorkloadBound(workload=POD, owner=POD, target=NODE, uid=uid, generation=1, revision=revision, bound_time=NOW)


def eviction(state: EvictionState, **fields: Any) -> EvictionDecided:
    given = {"workload": POD, "owner": POD, "target": NODE, "decided_time": NOW, "generation": 1, "revision": 1}
    return EvictionDecided.model_validate({**given, "state": state, **fields})


def test_workloads_are_files_that_say_what_they_were_started_for(example: Any, tmp_path: Path) -> None:
    machines = example.Machines(tmp_path / "running")
    assert [machines.start(bound()), machines.start(bound(revision=2)), machines.start(bound("b"))] == [
        True,
        False,
        True,
    ]
    again = example.Machines(tmp_path / "running")
    assert sorted((one.uid, one.revision) for one in again.list()) == [("a", 2), ("b", 1)]
    assert [again.stop(Running.of(bound())), again.stop(Running.of(bound()))] == [True, False]
    assert again.list() == [Running.of(bound("b"))]


async def test_its_handlers_print_what_they_do(
    example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployer = example.build(example.Machines(tmp_path), "examples/deployer")
    await deployer._place(bound())
    await deployer._place(bound(revision=2))
    for event in (
        eviction(EvictionState.SCHEDULED, deadline=NOW),
        eviction(EvictionState.HELD),  # as long as nothing has answered
        eviction(EvictionState.HELD, held_by=("EvictionPause/all",)),
    ):
        await deployer._schedule(event)
    await deployer._cancel(eviction(EvictionState.CANCELLED))
    for _ in range(2):
        await deployer._remove(Remove(Running.of(bound()), "TolerationExpired"))
    assert capsys.readouterr().out.splitlines() == [
        "start Pod/shop/web on Node/n1",
        "prepare Pod/shop/web on Node/n1: must leave at 2026-01-01T12:00:00Z",
        "wait Pod/shop/web on Node/n1: held by EvictionPause/all",
        "keep Pod/shop/web on Node/n1",
        "stop Pod/shop/web on Node/n1: TolerationExpired",
    ]
