"""TaintPolicies over the API: what is accepted, refused, warned of and shown in tables."""

from __future__ import annotations

from typing import Any, Final

import pytest
from tests.component.gateway.double import NOW, Fixture, node, node_ref, pod_ref
from tests.support.worlds.world import tolerate

from moorage.apiserver.kinds.status import policy_preview
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.topics import CONDITIONS

PATH: Final = "/apis/moorage.io/v1alpha1/taintpolicies"
DEADLOCK: Final = {"conditionType": "KernelDeadlock", "operator": "In", "statusValues": ["True"]}


def policy(name: str = "deadlock", kind: str = "Node", effect: str = "NoSchedule", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "TaintPolicy",
        "metadata": {"name": name},
        "spec": {
            "targets": {"kind": kind, **spec.pop("targets", {})},
            "addOnConditions": [DEADLOCK],
            "taints": [{"key": "kernel-deadlock", "effect": effect}],
            **spec,
        },
    }


async def test_a_policy_is_kept_as_it_is_written_and_shown_in_a_table() -> None:
    gateway = Fixture()
    chosen = {"names": ["n1", "n2"], "exclude": ["n2"], "selector": {"matchLabels": {"pool": "gpu"}}}
    made = await gateway.call("POST", PATH, policy(targets=chosen, addHold="30s"))
    assert made.status_code == 201, made.text
    assert "warning" not in made.headers
    assert made.json()["spec"] == policy(targets=chosen, addHold="30s")["spec"]
    table = await gateway.call("GET", PATH, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    assert [one["name"] for one in table.json()["columnDefinitions"]][:4] == ["Name", "Targets", "Conditions", "Taints"]
    cells = table.json()["rows"][0]["cells"]
    assert cells[:4] == ["deadlock", "Node/n1|n2 by labels,!n2", "KernelDeadlock", "kernel-deadlock:NoSchedule"]


async def test_errors_name_the_field_and_unknown_fields_are_refused() -> None:
    gateway = Fixture()
    refused = await gateway.call("POST", PATH, policy("cluster", "ManagedCluster"))
    assert refused.status_code == 422
    assert 'spec.taints[0].effect: Unsupported value: "NoSchedule"' in refused.json()["message"]
    unknown = await gateway.call("POST", PATH, policy(targetClusters={}))
    assert unknown.status_code in {400, 422}
    assert "targetClusters" in unknown.json()["message"]


async def test_a_policy_of_clusters_warns_while_evictions_from_clusters_are_off() -> None:
    gateway = Fixture()
    made = await gateway.call("POST", PATH, policy(kind="Cluster", effect="NoExecute"))
    assert made.status_code == 201, made.text
    assert "NoExecute taints evict nothing from clusters until" in made.headers["warning"]


EVICTING: Final = "the taints evict: by the present conditions, "


def gateway_with_pods() -> Fixture:
    """Three nodes with a deadlock on two of them, and on each a pod that tolerates nothing, and two that tolerate."""
    gateway = Fixture()
    for name in ("n1", "n2", "n3"):
        target = node_ref(name)
        gateway.bound(pod_ref(f"plain-{name}"), target)
        gateway.bound(pod_ref(f"some-time-{name}"), target, tolerations=(tolerate("kernel-deadlock", 60),))
        gateway.bound(pod_ref(f"forever-{name}"), target, tolerations=(tolerate("kernel-deadlock"),))
    return gateway


async def with_nodes(gateway: Fixture) -> None:
    for name, status in (("n1", "True"), ("n2", "True"), ("n3", "False")):
        made = await gateway.call("POST", "/api/v1/nodes", node(name))
        uid = made.json()["metadata"]["uid"]
        event = ConditionChanged(
            target=node_ref(name),
            target_uid=uid,
            type="KernelDeadlock",
            status=ConditionStatus(status),
            last_transition_time=NOW,
            last_heartbeat_time=NOW,
            generation=1,
        )
        gateway.log.append(CONDITIONS, f"Node/{name}|KernelDeadlock", f"Node/{name}", event)


async def test_the_answer_counts_the_workloads_that_would_leave_also_in_a_dry_run() -> None:
    gateway = gateway_with_pods()
    await with_nodes(gateway)
    both = EVICTING + "4 workloads on 2 targets would leave (2 at once, 2 after the tolerated time); "
    one = EVICTING + "2 workloads on 1 target would leave (1 at once, 1 after the tolerated time); "
    none = EVICTING + "no workload would leave; moorage simulate -f FILE shows the effects"
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, both),
        ({"targets": {"names": ["n1", "n3", "n9"]}}, one),
        ({"targets": {"exclude": ["n1"]}}, one),
        ({"targets": {"cluster": "east"}}, none),
        ({"targets": {"names": ["n3"], "cluster": "*"}}, none),
        ({"removeOnConditions": [DEADLOCK]}, none),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}, none),
    )
    for spec, warning in cases:
        answer = await gateway.call("POST", f"{PATH}?dryRun=All", policy(effect="NoExecute", **spec))
        assert answer.status_code == 201, answer.text
        assert warning in answer.headers["warning"], spec
    made = await gateway.call("POST", PATH, policy(effect="NoExecute"))
    assert both in made.headers["warning"]
    patch = {"spec": {"targets": {"names": ["n2"]}}}
    changed = await gateway.call(
        "PATCH", f"{PATH}/deadlock", patch, headers={"content-type": "application/merge-patch+json"}
    )
    assert one in changed.headers["warning"]


async def test_a_count_that_is_cut_short_is_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = gateway_with_pods()
    await with_nodes(gateway)
    monkeypatch.setattr(policy_preview, "BINDINGS", 3)
    answer = await gateway.call("POST", f"{PATH}?dryRun=All", policy(effect="NoExecute"))
    assert EVICTING + "at least 2 workloads on 2 targets would leave" in answer.headers["warning"]


async def test_a_taint_that_evicts_nothing_is_not_counted() -> None:
    gateway = gateway_with_pods()
    await with_nodes(gateway)
    answer = await gateway.call("POST", PATH, policy())
    assert "warning" not in answer.headers
