"""A rollout's bindings by the rule of a deployer: a new version is placed again, and nothing is removed for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_sdk.decisions import BINDING_ENDED, Decisions, Place, Remove, Running

ROLLOUT = WorkloadRef(kind="Rollout", namespace="shop", name="web")
CLUSTER = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1")
KEY = f"{ROLLOUT}|{CLUSTER}"


def bound(generation: int, version: str, **parts: Any) -> WorkloadBound:
    return WorkloadBound(
        workload=ROLLOUT,
        uid="u",
        owner=ROLLOUT,
        target=CLUSTER,
        generation=generation,
        version=version,
        bound_time=datetime(2026, 1, 1, tzinfo=UTC),
        **parts,
    )


def test_a_new_version_is_placed_and_the_one_before_is_not_removed() -> None:
    decisions = Decisions()
    first, second = bound(1, "v1"), bound(4, "v2")
    decisions.fold_binding(KEY, first)
    assert decisions.step(KEY, None) == Place(first)
    decisions.fold_binding(KEY, second)
    assert decisions.step(KEY, Running.of(first)) == Place(second)
    assert decisions.step(KEY, Running.of(second)) is None
    decisions.fold_binding(KEY, first)  # read again
    assert decisions.step(KEY, Running.of(second)) is None
    decisions.fold_binding(KEY, None)
    removed = decisions.step(KEY, Running.of(second))
    assert isinstance(removed, Remove)
    assert removed.reason == BINDING_ENDED
