"""A TaintPolicy is simulated before it is created, and the gateway's count is what the simulation shows."""

from __future__ import annotations

from typing import Any

from tests.component.simulation.copying import ProbedFleet, applied, ask, copy_of

from moorage.apiserver.kinds.status.policy_preview import preview
from moorage.apiserver.kinds.status.records import Records
from moorage.decide.taints.desired.taint_policies import TaintingPolicy
from moorage.runtime.service import Input
from moorage_schemas.topics import BINDINGS, CONDITIONS, RESOURCES, TAINTS

POLICY: dict[str, Any] = {
    "apiVersion": "moorage.io/v1alpha1",
    "kind": "TaintPolicy",
    "metadata": {"name": "deadlock"},
    "spec": {
        "targets": {"kind": "Node"},
        "addOnConditions": [{"conditionType": "KernelDeadlock", "operator": "In", "statusValues": ["True"]}],
        "taints": [{"key": "kernel-deadlock", "effect": "NoExecute"}],
    },
}


def test_the_workloads_of_the_warning_are_those_that_leave() -> None:
    fleet = ProbedFleet({"a": 2, "b": 1})
    fleet.deploy("web", 6)
    fleet.report("a1", "KernelDeadlock", "True")
    fleet.flow.run()
    records = Records()
    for topic in (RESOURCES, TAINTS, CONDITIONS, BINDINGS):
        for record in fleet.flow.records(topic):
            found = record.decode()
            assert isinstance(found, Input)
            records.tables[topic.short].put(found.key, found.event)
    counted = preview(TaintingPolicy.of(POLICY), records)
    said, _ = ask(copy_of(fleet.flow), fleet.settings, applied(POLICY))
    assert [one["target"] for one in said["targets"]] == ["Node/a1"]
    assert counted.targets == 1
    assert counted.at_once + counted.later == len(said["leaving"]) > 0
