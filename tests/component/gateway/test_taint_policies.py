"""TaintPolicies over the API: what is accepted, refused, warned of and shown in tables."""

from __future__ import annotations

from typing import Any, Final

from tests.component.gateway.double import Fixture

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
