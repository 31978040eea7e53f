"""Objects as they are mirrored."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from moorage.bridges.engine.seen_target import TAINTS_ANNOTATION
from moorage.bridges.kubernetes.reduced import reduced

Json = dict[str, Any]


def of(kind: str, **parts: Any) -> Json:
    core = dict.fromkeys(("Pod", "Node", "PersistentVolume", "PersistentVolumeClaim"), "v1")
    version = {**core, "PodDisruptionBudget": "policy/v1"}.get(kind, "apps/v1")
    metadata = {"name": "one", "uid": "u1", "resourceVersion": "7", **parts.pop("metadata", {})}
    return reduced({"apiVersion": version, "kind": kind, "metadata": metadata, **parts})


def test_metadata_is_what_decisions_need() -> None:
    annotations = {
        "kept": "x",
        "large": "x" * 1025,
        TAINTS_ANNOTATION: "[]",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    found = of(
        "Pod",
        metadata={
            "labels": {"a": "b"},
            "annotations": annotations,
            "managedFields": [{"manager": "kubelet"}],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "generateName": "one-",
        },
    )
    assert found["metadata"] == {
        "name": "one",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"a": "b"},
        "annotations": {"kept": "x"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }


def test_a_pod_of_a_megabyte_becomes_small() -> None:
    container = {
        "name": "main",
        "image": "job:1",
        "resources": {"requests": {"cpu": "1"}},
        "env": [{"name": f"E{number}", "value": "x" * 100} for number in range(5000)],
        "args": ["x" * 400_000],
    }
    spec = {
        "nodeName": "n1",
        "schedulerName": "moorage",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "v", "configMap": {"name": "x" * 1000}}],
    }
    found = of("Pod", spec=spec, status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    assert len(orjson.dumps(found)) < 1000
    assert found["spec"]["containers"] == [{"name": "main", "image": "job:1", "resources": {"requests": {"cpu": "1"}}}]
    assert found["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert "status" not in found, "how it runs is reported as a condition, and changes often"


def test_that_a_pod_has_ended_is_kept() -> None:
    for phase in ("Succeeded", "Failed"):
        assert of("Pod", status={"phase": phase, "reason": "Evicted"})["status"] == {
            "phase": phase,
            "reason": "Evicted",
        }


def test_the_resources_of_a_whole_pod_are_kept() -> None:
    own = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert of("Pod", spec={"containers": [{"name": "a"}], "resources": own})["spec"]["resources"] == own


def test_the_present_resources_of_a_pod_are_kept_while_they_are_not_those_that_it_wants() -> None:
    spec = {"nodeName": "n1", "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}

    def at(cpu: str) -> Json:
        resources = {"allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}
        pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "later"}
        statuses = [{"name": "a", "ready": True, "image": "i", **resources}]
        return of("Pod", spec=spec, status={"containerStatuses": statuses, "conditions": [{"type": "Ready"}, pending]})

    assert "status" not in at("1")
    assert at("2")["status"] == {
        "containerStatuses": [
            {"name": "a", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}
        ],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    }


def test_a_heartbeat_changes_nothing_of_a_node() -> None:
    def at(beat: str) -> Json:
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}]
        status = {"conditions": conditions, "images": [{"names": [beat]}], "allocatable": {"cpu": "4"}}
        return of("Node", spec={"podCIDR": "10.0.0.0/24"}, status=status)

    assert at("2026-01-01T00:00:00Z") == at("2026-01-01T00:05:00Z")
    assert at("x")["status"] == {"allocatable": {"cpu": "4"}}


def test_a_controller_keeps_what_it_demands() -> None:
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "main", "image": "web:1", "env": [{"name": "A"}]}], "priority": 5},
    }
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    found = of("Deployment", spec=spec, status={"readyReplicas": 2, "conditions": [{"type": "Available"}]})
    assert found["spec"]["replicas"] == 3
    assert found["spec"]["template"] == {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}], "priority": 5},
    }
    assert found["status"] == {"readyReplicas": 2}


def test_objects_may_lack_every_part() -> None:
    for kind in ("Pod", "Node", "PodDisruptionBudget", "PersistentVolumeClaim", "Deployment", "Job"):
        found = of(kind)
        assert found["metadata"]["name"] == "one"
        assert not found["spec"]


ALLOWED = {"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods"}
SUM = {
    "observedGeneration": 2,
    "expectedPods": 3,
    "currentHealthy": 3,
    "disruptionsAllowed": 1,
    "conditions": [ALLOWED],
}


@pytest.mark.parametrize(
    ("spec", "status", "kept"),
    [
        ({"maxUnavailable": 1}, SUM, {"expectedPods": 3}),
        ({"minAvailable": "50%"}, SUM, {"expectedPods": 3}),
        ({"minAvailable": 2}, SUM, None),  # then it is no sum of scales
        ({"maxUnavailable": 1}, {**SUM, "observedGeneration": 1}, None),
        ({"maxUnavailable": 1}, {**SUM, "conditions": [{**ALLOWED, "reason": "SyncFailed"}]}, None),
        ({"maxUnavailable": 1}, {"observedGeneration": 2}, None),
        ({"maxUnavailable": 1}, None, None),
    ],
)
def test_a_budget_keeps_the_scale_that_its_cluster_has_counted(
    spec: Json, status: Json | None, kept: Json | None
) -> None:
    found = of("PodDisruptionBudget", metadata={"generation": 2}, spec=spec, status=status)
    assert (found["spec"], found.get("status")) == (spec, kept)


def test_of_volumes_and_claims_what_ties_pods_to_nodes_is_mirrored() -> None:
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}
    found = of("PersistentVolume", spec={"nodeAffinity": terms, "csi": {"driver": "d", "volumeHandle": "h"}})
    assert found["spec"] == {"nodeAffinity": terms}
    claim = of("PersistentVolumeClaim", spec={"volumeName": "disk", "resources": {"requests": {"storage": "1Gi"}}})
    assert claim["spec"] == {"volumeName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
