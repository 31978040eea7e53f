"""The reason of an eviction: the first of the reasons of its taints."""

from __future__ import annotations

from tests.support.tables import table

from moorage.decide.disruption.budgets import ScopeTest, Subject
from moorage.decide.disruption.eviction_reasons import eviction_reason
from moorage_schemas.leave_request import Requester, RequesterKind
from moorage_schemas.resources.budgets import EvictionReason, Scope
from moorage_schemas.taint import Taint


@table(
    ("keys", "reason"),
    [
        ((), "Request"),
        (("node.kubernetes.io/unreachable",), "Failure"),
        (("node.kubernetes.io/out-of-service",), "Failure"),
        (("cluster.karmada.io/not-ready",), "Failure"),
        (("moorage.io/maintenance",), "Maintenance"),
        (("moorage.io/drain",), "Drain"),
        (("node.kubernetes.io/unschedulable",), "Drain"),
        (("karpenter.sh/disrupted",), "Drain"),
        (("example.com/gpu-broken",), "Taint"),
        (("moorage.io/drain", "node.kubernetes.io/not-ready"), "Failure"),
        (("moorage.io/maintenance", "moorage.io/drain"), "Drain"),
        (("moorage.io/maintenance", "example.com/gpu-broken"), "Taint"),
    ],
)
def test_reason(keys: tuple[str, ...], reason: str) -> None:
    assert eviction_reason(Taint(key=key, effect="NoExecute") for key in keys) == reason


@table(
    ("keys", "kinds", "reason"),
    [
        ((), ("EvictionRequest",), "Request"),
        ((), ("Drift", "Maintenance"), "Maintenance"),
        (("example.com/gpu-broken",), ("Maintenance",), "Taint"),
        (("moorage.io/maintenance",), ("EvictionRequest",), "Maintenance"),
    ],
)
def test_reason_with_requesters(keys: tuple[str, ...], kinds: tuple[str, ...], reason: str) -> None:
    taints = [Taint(key=key, effect="NoExecute") for key in keys]
    assert eviction_reason(taints, [Requester(kind=RequesterKind(kind), name="a") for kind in kinds]) == reason


@table(
    ("reasons", "reason", "applies"),
    [
        (None, "", True),
        (None, "Failure", True),
        (["Drain", "Maintenance"], "Drain", True),
        (["Drain", "Maintenance"], "Failure", False),
        (["Failure"], "", False),
    ],
)
def test_a_guard_applies_to_its_reasons(reasons: list[str] | None, reason: str, *, applies: bool) -> None:
    test = ScopeTest(Scope(), None if reasons is None else [EvictionReason(one) for one in reasons])
    subject = Subject("Pod/shop/web-1", "Deployment/shop/web", "Node/n1", "eu/eu-1", {}, reason)
    assert test.applies(subject) is applies
