"""The result of a simulation, which comes true when the same change is made to the fleet itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.component.simulation.copying import ProbedFleet, applied, ask, client, nothing, outage, tainted
from tests.support.worlds.world import node

from moorage.insight.copy.gateway import Edge
from moorage.insight.copy.run import Change
from moorage.insight.copy.stack import MemoryStack
from moorage_schemas.condition import EVICTED, HEALTHY, ConditionReported, ConditionStatus
from moorage_schemas.eviction import EvictionState
from moorage_schemas.times import format_time
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, CONDITIONS, EVICTIONS


def fleet(**settings: Any) -> ProbedFleet:
    """Two zones of three nodes and six pods, after ten minutes."""
    made = ProbedFleet({"a": 3, "b": 3}, **settings)
    made.deploy("web", 6)
    made.pass_time(600)
    return made


def requested(made: ProbedFleet, since: datetime) -> dict[tuple[str, str], str]:
    """The evictions that were requested since then, with their times."""
    return {
        (str(record.event.workload), str(record.event.target)): format_time(record.time)
        for record in made.flow.records(EVICTIONS)
        if record.value is not None and record.event.state is EvictionState.REQUESTED and record.time >= since
    }


def test_nothing_happens_in_an_hour_in_which_nothing_is_changed() -> None:
    """Heartbeats continue in the copy, so no condition becomes Unknown because of the copy."""
    made = fleet()
    said, found = ask(made.copy(), made.settings, nothing)
    assert found.changed.records == {}
    assert found.without.records == {}
    assert said["quiet"] is True
    assert set(said["summary"].values()) == {0}


def test_a_taint_with_toleration_seconds_comes_true() -> None:
    made = fleet()
    start = made.flow.now
    said, _ = ask(made.copy(), made.settings, tainted("a1", "bad"))
    (on_it, *_) = [pod for pod, where in made.pods().items() if where == "a1"]
    (leaves,) = said["leaving"]
    after = format_time(start + timedelta(seconds=300))
    assert (leaves["workload"], leaves["target"]) == (on_it, "Node/a1")
    assert (leaves["deadline"], leaves["at"], leaves["state"]) == (after, after, "Completed")
    assert leaves["taints"] == ["bad:NoExecute"]
    (moved,) = said["decisions"]
    assert moved["replaces"] == on_it
    assert (moved["from"]["targets"], moved["at"]) == (["Node/a1"], after)
    assert moved["without"] == moved["from"]
    assert said["summary"] | {"moved": 1, "leaving": 1, "nowhere": 0, "targets": 1} == said["summary"]
    # Now make the change.
    made.taint("a1", "bad")
    made.pass_time(600)
    assert requested(made, start) == {(one["workload"], one["target"]): one["at"] for one in said["leaving"]}
    assert made.pods()[moved["workload"]] == moved["to"]["targets"][0].removeprefix("Node/")


def test_deployers_acknowledge_in_a_copy_what_they_did_not_refuse() -> None:
    made = fleet()
    bindings = list(made.flow.table(BINDINGS).values())
    for bound in bindings:
        made.report(bound.target.key, HEALTHY, "True", source="deployer", binding=bound)
    made.pass_time(1)
    said, _ = ask(made.copy(), made.settings, tainted("a1", "bad"))
    (leaves,) = said["leaving"]
    assert (leaves["target"], leaves["state"]) == ("Node/a1", "Completed")
    # In the fleet itself, one of them is refused. Nothing else is assumed of it in a copy.
    made.taint("a1", "bad")
    made.pass_time(400)
    (bound,) = [one for one in bindings if one.target.key == "Node/a1"]
    made.report("Node/a1", EVICTED, "False", source="deployer", binding=bound, reason="Refused")
    made.pass_time(1)
    said, found = ask(made.copy(), made.settings, nothing)
    assert found.without.records == {}
    assert said["quiet"] is True


def test_an_outage_of_a_zone_comes_true() -> None:
    """The zone's rate, the deadlines and the new places of the pods are the same as in the fleet itself."""
    made = fleet()
    start = made.flow.now
    said, _ = ask(made.copy(), made.settings, outage("zone=a"))
    gone = frozenset({"a1", "a2", "a3"})
    assert {one["target"] for one in said["targets"]} == {f"Node/{name}" for name in gone}
    assert said["zones"][0]["zone"] == "/a"
    assert said["zones"][0]["states"][-1]["state"] == "FullDisruption"
    assert said["summary"]["leaving"] == sum(where in gone for where in made.pods().values())
    assert any(one["waited"] for one in said["targets"])
    for name in sorted(gone):
        made.report(name, "Ready", "Unknown")
    made.pass_time(900, without=gone)
    assert requested(made, start) == {(one["workload"], one["target"]): one["at"] for one in said["leaving"]}
    ends = {one["workload"]: one["to"]["targets"] for one in said["decisions"]}
    assert ends == {name: [f"Node/{where}"] for name, where in made.pods().items() if name in ends}


def test_what_happens_anyway_is_not_blamed_on_the_change() -> None:
    made = fleet()
    made.taint("b1", "bad")
    made.pass_time(60)
    said, found = ask(made.copy(), made.settings, tainted("a1", "bad"))
    assert {one["target"] for one in said["leaving"]} == {"Node/a1"}
    assert {one["target"] for one in said["targets"]} == {"Node/a1"}
    assert {str(record.event.target) for record in found.without.written(EVICTIONS)} == {"Node/b1"}
    assert {str(record.event.target) for record in found.changed.written(EVICTIONS)} == {"Node/a1", "Node/b1"}
    assert said["without"]["evictions"] > 0


def test_a_replica_that_stands_in_in_both_runs_is_told_with_the_one_it_stands_in_for() -> None:
    """An eviction is already in progress. The change only affects where its replacement goes."""
    made = fleet()
    made.taint("a1", "bad")
    made.pass_time(10)
    leaves = sorted(pod for pod, where in made.pods().items() if where == "a1")
    anyway, _ = ask(made.copy(), made.settings, tainted("b3", "other", "NoSchedule"))
    assert anyway["decisions"] == []
    said, _ = ask(made.copy(), made.settings, tainted("a2", "full", "NoSchedule"))
    for one in said["decisions"]:
        assert one["replaces"] in leaves
        assert (one["from"]["targets"], one["without"]["targets"]) == (["Node/a1"], ["Node/a2"])
    assert said["decisions"]
    assert (said["summary"]["moved"], said["summary"]["placed"]) == (len(said["decisions"]), 0)


def test_another_value_of_a_taint_is_told_with_the_one_that_it_takes_the_place_of() -> None:
    made = fleet()

    def valued(value: str) -> Change:
        def change(edge: Edge, _stack: MemoryStack) -> list[str]:
            taints = [{"key": "k", "value": value, "effect": "NoSchedule"}]
            merge = {"content-type": "application/merge-patch+json"}
            answer = client(edge).patch("/api/v1/nodes/a1", json={"spec": {"taints": taints}}, headers=merge)
            assert answer.status_code == 200, answer.text
            return ["a1 tainted"]

        return change

    made.taint("a1", "k", "NoSchedule", "old")
    made.pass_time(10)
    said, _ = ask(made.copy(), made.settings, valued("new"))
    (row,) = said["targets"]
    assert [one["taint"] for one in row["added"]] == ["k=new:NoSchedule"]
    assert [one["taint"] for one in row["removed"]] == ["k=old:NoSchedule"]


def test_the_taints_of_a_target_that_is_deleted_are_no_news() -> None:
    made = fleet()
    made.taint("a1", "full", "NoSchedule")
    made.pass_time(10)

    def delete(edge: Edge, _stack: MemoryStack) -> list[str]:
        assert client(edge).delete("/api/v1/nodes/a1").status_code == 200
        return ["a1 deleted"]

    said, _ = ask(made.copy(), made.settings, delete)
    assert said["targets"] == []
    assert said["summary"]["moved"] == len(said["decisions"]) > 0


def test_what_has_nowhere_to_go_is_told_with_the_reason() -> None:
    made = fleet()
    made.deploy("picky", 1, 60, nodeSelector={"topology.kubernetes.io/zone": "a"})
    made.pass_time(30)
    said, _ = ask(made.copy(), made.settings, outage("zone=a"))
    (lost,) = said["nowhere"]
    assert lost["owner"] == "Deployment/default/picky"
    assert "0/6 nodes are available" in lost["message"]
    assert lost["from"]["targets"][0] in {"Node/a1", "Node/a2", "Node/a3"}


def test_a_budget_that_holds_is_told() -> None:
    made = fleet()
    made.declare("PodDisruptionBudget", "web", {"minAvailable": 6, "selector": {"matchLabels": {"app": "web"}}})
    made.pass_time(10)
    said, _ = ask(made.copy(), made.settings, tainted("a1", "worse"))
    (leaves,) = said["leaving"]
    assert leaves["holds"][0]["by"] == ["PodDisruptionBudget/default/web"]
    assert leaves["state"] == "Completed"
    waited = datetime.fromisoformat(leaves["at"]) - datetime.fromisoformat(leaves["deadline"])
    assert waited == timedelta(seconds=made.settings.disruption_budget_patience)


def test_a_removed_taint_spares_what_was_about_to_leave() -> None:
    made = fleet()
    made.taint("a1", "bad")
    made.pass_time(60)

    def untaint(edge: Edge, _stack: MemoryStack) -> list[str]:
        body: dict[str, Any] = {"spec": {"taints": []}}
        headers = {"content-type": "application/merge-patch+json"}
        assert client(edge).patch("/api/v1/nodes/a1", json=body, headers=headers).status_code == 200
        return []

    said, _ = ask(made.copy(), made.settings, untaint)
    assert said["leaving"] == []
    assert [one["target"] for one in said["spared"]] == ["Node/a1"]
    assert said["targets"][0]["removed"] == [{"taint": "bad:NoExecute"}]


def test_a_new_deployment_and_a_node_are_placed() -> None:
    made = fleet()
    new_node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c1", "labels": {"disk": "ssd"}}}
    template = {
        "metadata": {"labels": {"app": "new"}},
        "spec": {"containers": [{"name": "c", "image": "c:1"}], "nodeSelector": {"disk": "ssd"}},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "new", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "new"}}, "template": template},
    }
    said, _ = ask(made.copy(), made.settings, applied(new_node, deployment))
    new = [one for one in said["decisions"] if one["owner"] == "Deployment/default/new"]
    assert [(one["from"], one["to"]["targets"]) for one in new] == [(None, ["Node/c1"])] * 2
    assert (said["summary"]["placed"], said["summary"]["moved"]) == (2, 0)


def test_a_source_that_was_silent_already_is_not_held_alive() -> None:
    made = fleet()
    made.pass_time(30, without=frozenset({"a1"}))
    # The grace period is over, also if the last heartbeats were not recorded, and no service has checked.
    made.flow.now += timedelta(seconds=35)
    said, found = ask(made.copy(), made.settings, nothing)
    unknown = [record.event for record in found.changed.records["conditions"]]
    assert {(str(event.target), event.status.value) for event in unknown} == {("Node/a1", "Unknown")}
    assert said["summary"]["targets"] == 0  # without a change, too


def test_a_bare_pod_that_is_evicted_is_gone() -> None:
    made = fleet()
    made.declare("Pod", "alone", {"containers": [{"name": "c"}], "nodeName": "a1"})
    said, _ = ask(made.copy(), made.settings, tainted("a1", "worse"))
    (row,) = [one for one in said["decisions"] if one["workload"] == "Pod/default/alone"]
    assert (row["from"]["targets"], row["to"]) == (["Node/a1"], None)


def test_a_pause_in_the_same_change_holds_what_would_leave() -> None:
    made = fleet()
    pause = {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "EvictionPause",
        "metadata": {"name": "all"},
        "spec": {"scope": {}},
    }

    def change(edge: Edge, stack: MemoryStack) -> list[str]:
        return [*applied(pause)(edge, stack), *tainted("a1", "bad")(edge, stack)]

    said, _ = ask(made.copy(), made.settings, change)
    (held,) = said["leaving"]
    assert (held["state"], held["at"], held["holds"][-1]["by"]) == ("Held", None, ["EvictionPause/all"])
    assert held["deadline"] == format_time(made.flow.now + timedelta(seconds=300))
    assert (said["summary"]["held"], said["summary"]["leaving"]) == (1, 0)


def test_a_node_that_is_deleted_takes_its_pods_elsewhere() -> None:
    made = fleet()

    def change(edge: Edge, _stack: MemoryStack) -> list[str]:
        assert client(edge).delete("/api/v1/nodes/a1").status_code == 200
        return []

    said, _ = ask(made.copy(), made.settings, change)
    (moved,) = said["decisions"]
    assert moved["from"]["targets"] == ["Node/a1"]
    assert moved["to"]["targets"] != ["Node/a1"]


def test_machines_that_are_made_take_what_waits() -> None:
    """The nodes of the machine set are created as by the gateway, and pods that wait for their label go there."""
    made = fleet()
    made.deploy("render", 2, nodeSelector={"accelerator": "yes"})
    machines = {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineSet",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"set": "gpu"}},
            "template": {
                "metadata": {"labels": {"set": "gpu"}},
                "spec": {
                    "metadata": {"labels": {"accelerator": "yes"}},
                    "taints": [{"key": "shared", "effect": "PreferNoSchedule"}],
                },
            },
        },
    }
    said, _ = ask(made.copy(), made.settings, applied(machines))
    new = {one["target"]: one["added"] for one in said["targets"]}
    assert len(new) == 2
    assert {taint["taint"] for added in new.values() for taint in added} == {"shared:PreferNoSchedule"}
    assert sorted(one["to"]["targets"][0] for one in said["decisions"]) == sorted(new)
    assert {one["from"]["state"] for one in said["decisions"]} == {"Pending"}
    assert said["nowhere"] == []


def test_an_outage_silences_what_was_known_by_heartbeats_only() -> None:
    """The effect is as if the grace periods of all sources had ended. A person's report stays. The same with False."""
    made = fleet()
    made.report("a1", "MemoryPressure", "True")
    by_hand = ConditionReported(
        target=node("a1"), type="DiskPressure", status=ConditionStatus.TRUE, observed_time=made.flow.now
    )
    made.flow.produce(CONDITION_REPORTS, "Node/a1", by_hand, source="cli/somebody")
    made.flow.run()
    _, found = ask(made.copy(), made.settings, outage("node=a1"))
    reported = {record.event.type: record.event.status.value for record in found.changed.written(CONDITIONS)}
    assert reported == {"Ready": "Unknown", "MemoryPressure": "Unknown"}
    _, found = ask(made.copy(), made.settings, outage("node=a1", "False"))
    reported = {record.event.type: record.event.status.value for record in found.changed.written(CONDITIONS)}
    assert reported == {"Ready": "False"}


def test_a_probe_whose_clock_is_ahead_does_not_outlive_an_outage() -> None:
    made = fleet()
    made.report("a1", "Ready", "True", at=made.flow.now + timedelta(seconds=20))
    made.flow.run()
    said, _ = ask(made.copy(), made.settings, outage("node=a1"))
    assert [one["target"] for one in said["targets"]] == ["Node/a1"]
