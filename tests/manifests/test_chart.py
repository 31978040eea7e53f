"""The Helm chart makes the objects of the kustomize base, and refuses values that it does not have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.kubectl import programs
from tests.support import manifests


def test_the_chart_makes_the_objects_of_the_base() -> None:
    ours = manifests.objects(manifests.kustomized("base"))
    # Who installs a chart makes its namespace.
    del ours[f"Namespace/{manifests.NAMESPACE}"]
    theirs = {key: manifests.without_makers(one) for key, one in manifests.objects(manifests.templated()).items()}
    assert theirs.keys() == ours.keys()
    for key, one in ours.items():
        assert theirs[key] == one, key


def test_with_all_options_the_chart_makes_the_objects_of_all_components(tmp_path: Path) -> None:
    components = ("strimzi", "keda", "keda/strimzi", "monitoring", "bridge", "bridge/acts", "bridge/strimzi")
    ours = manifests.objects(manifests.combined(tmp_path, *components))
    # The chart uses a Kafka and its users, and does not make them.
    ours = {
        key: one for key, one in ours.items() if one["kind"] not in ("Namespace", "Kafka", "KafkaNodePool", "KafkaUser")
    }
    theirs = manifests.objects(manifests.templated(*manifests.WHOLE))
    assert theirs.keys() == ours.keys()
    for key, one in ours.items():
        assert _compared(theirs[key]) == _compared(one), key


def _compared(one: manifests.Manifest) -> manifests.Manifest:
    """An object without labels that select nothing, and with its volumes in the order of their names."""
    made = manifests.without_makers(one)
    made["metadata"].pop("labels", None)
    if "template" in made.get("spec", {}):
        for name in ("app.kubernetes.io/part-of", "app.kubernetes.io/version"):
            made["spec"]["template"]["metadata"]["labels"].pop(name, None)
        for place in (manifests.pod(made)["volumes"], manifests.container(made)["volumeMounts"]):
            place.sort(key=lambda each: str(each["name"]))
    return made


def test_a_bridge_has_the_roles_of_its_acts_alone() -> None:
    made = manifests.objects(manifests.templated("--set=bridge.enabled=true,bridge.acts={taints}"))
    roles = {one["metadata"]["name"] for one in made.values() if one["kind"] in ("ClusterRole", "Role")}
    assert roles == {f"moorage-bridge-{name}" for name in ("mirror", "heartbeats", "election", "taints")}
    assert "--act=taints" in manifests.container(made["Deployment/moorage-bridge"])["args"]
    made = manifests.objects(manifests.templated("--set=bridge.enabled=true"))
    roles = {one["metadata"]["name"] for one in made.values() if one["kind"] in ("ClusterRole", "Role")}
    assert roles == {f"moorage-bridge-{name}" for name in ("mirror", "heartbeats")}


def test_the_chart_is_sound() -> None:
    assert "0 chart(s) failed" in manifests.linted()
    assert "0 chart(s) failed" in manifests.linted(*manifests.WHOLE)


def test_every_value_has_its_effect() -> None:
    made = manifests.objects(
        manifests.templated(
            "--set=image.repository=registry.example.com/moorage,image.tag=1.2.3",
            "--set=services.placement.replicas=5,workers.replicas=3,gateway.replicas=4",
            "--set=gateway.service.type=LoadBalancer,gateway.service.port=6443",
            "--set=networkPolicy.enabled=false,topics.enabled=false",
            "--set=settings.MOORAGE_TOPIC_PREFIX=east,priorityClassName=high",
            '--set-json=tolerations=[{"key":"a","operator":"Exists"}]',
            '--set-json=imagePullSecrets=[{"name":"pull"}]',
        )
    )
    pods = list(manifests.workloads(made))
    assert {manifests.container(one)["image"] for one in pods} == {"registry.example.com/moorage:1.2.3"}
    replicas = {manifests.component(one): one["spec"]["replicas"] for one in pods}
    assert (replicas.pop("placement"), replicas.pop("gateway")) == (5, 4)
    assert set(replicas.values()) == {3}
    assert "topics" not in replicas
    service = made["Service/moorage-gateway"]["spec"]
    assert (service["type"], service["ports"][0]["port"]) == ("LoadBalancer", 6443)
    assert not any(key.startswith("NetworkPolicy/") for key in made)
    assert made["ConfigMap/moorage-settings"]["data"]["MOORAGE_TOPIC_PREFIX"] == "east"
    for one in pods:
        spec = manifests.pod(one)
        assert spec["priorityClassName"] == "high"
        assert spec["tolerations"] == [{"key": "a", "operator": "Exists"}]
        assert spec["imagePullSecrets"] == [{"name": "pull"}]


def test_a_change_of_the_settings_replaces_the_pods() -> None:
    def annotations(*options: str) -> set[str]:
        made = manifests.workloads(manifests.objects(manifests.templated(*options)))
        return {str(one["spec"]["template"]["metadata"].get("annotations")) for one in made if one["kind"] != "Job"}

    before, after = annotations(), annotations("--set=settings.MOORAGE_LOG_LEVEL=debug")
    assert len(before) == len(after) == 1
    assert before != after


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("gateway.replicas=-1", "gateway/replicas"),
        ("services.timers.replicas=1", "timers"),
        ("settings.moorage_log_level=info", "moorage_log_level"),
        ("settings.MOORAGE_BOOTSTRAP_SERVERS=", "MOORAGE_BOOTSTRAP_SERVERS"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("networkPolicy.enabeld=true", "enabeld"),
        ("bridge.acts={taint}", "bridge/acts"),
        ("gateway.service.port=70000", "gateway/service/port"),
    ],
)
def test_a_wrong_value_is_refused_by_name(value: str, rule: str) -> None:
    words = [str(programs.helm()), "template", "moorage", str(manifests.CHART), "--set", value]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert rule in done.stderr.replace(".", "/") or rule in done.stderr
