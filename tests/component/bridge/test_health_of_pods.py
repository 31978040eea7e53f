"""What a bridge reports of how pods are."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.component.bridge.cluster import pod

from moorage.bridges.kubernetes.cluster_bridge import Observations
from moorage.bridges.kubernetes.reduced import SeenPod
from moorage_schemas.condition import HEALTHY

KEY = "Pod/default/web"
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
UNREADY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "Crashed"}]}}
ENDED = {"status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "True"}]}}
LEAVING = {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}


def reported(
    found: dict[str, Any], *, known: str = "", nodes: Sequence[str] = ("n1", "n2"), mirrored: bool = True
) -> tuple[str, str] | None:
    """The status and reason that are to be reported, if `known` was reported before."""
    tables: Any = SimpleNamespace(
        binding_of=lambda _key, _uid: SimpleNamespace(target="n1", generation=3),
        health={KEY: {"Node/n1": SimpleNamespace(uid="u", generation=3, status=known)}} if known else {},
    )
    state: Any = SimpleNamespace(
        pods={KEY: SeenPod.of(found)}, targets={one: SimpleNamespace(name=one, uid=one) for one in nodes}
    )
    nothing: Any = None
    seen = Observations("bridge/home", state, tables, nothing, lambda _key, _uid: mirrored)
    report = seen.present(f"pod|{KEY}|{HEALTHY}")
    if report is None:
        return None
    assert (report.workload_uid, report.binding_generation) == ("u", 3)
    return report.status, report.reason


@pytest.mark.parametrize(
    ("more", "known", "expected"),
    [
        (READY, "", ("True", "")),
        (READY, "False", ("True", "")),
        (UNREADY, "", None),
        (UNREADY, "True", ("False", "Crashed")),
        (ENDED, "", None),
        (ENDED, "True", ("False", "")),
    ],
)
def test_a_pod_is_healthy_while_it_is_ready(more: dict[str, Any], known: str, expected: tuple[str, str] | None) -> None:
    assert reported({**pod("web", node="n1", uid="u"), **more}, known=known) == expected


def test_a_pod_that_is_being_deleted_is_not_healthy_though_its_kubelet_has_not_said_so() -> None:
    found = {**pod("web", node="n1", **LEAVING), **READY}
    assert reported(found, known="True") == ("False", "")
    assert reported(found) is None


def test_nothing_is_reported_of_a_pod_that_is_not_where_it_is_bound() -> None:
    assert reported({**pod("web", node="n2", uid="u"), **READY}) is None


def test_nothing_is_reported_of_a_pod_whose_node_is_gone_or_not_mirrored_yet() -> None:
    found = {**pod("web", node="n1", uid="u"), **READY}
    assert reported(found) is not None
    assert reported(found, nodes=()) is None
    assert reported(found, mirrored=False) is None
