"""The components of ops/kubernetes agree with Kafka's permissions, the metrics, and compose.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests.test_base import FIELDS, OURS, TOPICS, of_kind
from tests.support import manifests
from tests.support.manifests import Manifest, component, container, environment, pod
from tests.support.processes import COMMANDS, SERVICES

from moorage.cli.commands.topics import kafka_users
from moorage.cli.contract import kafka_roles
from moorage.runtime.settings.environment import KAFKA_VERSION
from moorage.runtime.settings.process_settings import Settings

ROOT = manifests.ROOT
CLUSTER = "moorage"
PARTITIONS = Settings.model_fields["partitions"].default

# These work in one process, whatever their number.
UNDIVIDED = {"governor"}

# Those that Strimzi sets itself: https://strimzi.io/docs, "config" of a Kafka.
_OF_STRIMZI = ("listeners", "advertised.", "listener.", "inter.broker.", "sasl.", "ssl.", "log.dir", "node.id")


@pytest.fixture(scope="module")
def production() -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized("overlays/production"))


@pytest.fixture(scope="module")
def workloads(production: dict[str, Manifest]) -> dict[str, Manifest]:
    return {component(one): one for one in manifests.workloads(production)}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return document


def test_the_users_may_do_what_the_roles_say_and_nothing_else() -> None:
    """After a change of the roles: moorage topics acls -o strimzi > ops/kubernetes/strimzi/users.yaml."""
    users = list(yaml.safe_load_all((manifests.KUBERNETES / "strimzi" / "users.yaml").read_text("utf-8")))
    assert users == kafka_users(kafka_roles.entries("moorage"), CLUSTER)


def test_each_process_is_its_own_user_with_files_that_strimzi_makes(
    production: dict[str, Manifest], workloads: dict[str, Manifest], tmp_path: Path
) -> None:
    for file in ("kafka-ca/ca.crt", "kafka-user/user.crt", "kafka-user/user.key"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("x")
    assert sorted(workloads) == sorted([*OURS, TOPICS])
    for name, one in workloads.items():
        volumes = {each["name"]: each["secret"]["secretName"] for each in pod(one)["volumes"] if "secret" in each}
        assert volumes["kafka-user"] == f"moorage-{'operator' if name == TOPICS else name}"
        assert f"KafkaUser/{volumes['kafka-user']}" in production
        assert volumes["kafka-ca"] == f"{CLUSTER}-cluster-ca-cert"
        places = {each["name"]: each["mountPath"] for each in container(one)["volumeMounts"]}
        said = environment(production, one, FIELDS)
        assert said["MOORAGE_KAFKA_SECURITY_PROTOCOL"] == "SSL"
        assert said["MOORAGE_KAFKA_CA_FILE"] == f"{places['kafka-ca']}/ca.crt"
        assert said["MOORAGE_KAFKA_CERT_FILE"] == f"{places['kafka-user']}/user.crt"
        assert said["MOORAGE_KAFKA_KEY_FILE"] == f"{places['kafka-user']}/user.key"
        (listener,) = production[f"Kafka/{CLUSTER}"]["spec"]["kafka"]["listeners"]
        assert said["MOORAGE_BOOTSTRAP_SERVERS"] == f"{CLUSTER}-kafka-bootstrap:{listener['port']}"
        assert listener["tls"] is True
        assert listener["authentication"] == {"type": "tls"}
        fields: dict[str, Any] = {
            key.removeprefix("MOORAGE_").lower(): value.replace("/etc/moorage", str(tmp_path))
            for key, value in said.items()
            if key.startswith("MOORAGE_")
        }
        Settings(**fields)


def test_kafka_is_the_version_and_has_the_settings_of_compose(
    production: dict[str, Manifest], compose: dict[str, Any]
) -> None:
    kafka = production[f"Kafka/{CLUSTER}"]["spec"]["kafka"]
    assert kafka["version"] == KAFKA_VERSION
    theirs = {
        key.removeprefix("KAFKA_").lower().replace("_", "."): value
        for key, value in compose["services"]["kafka"]["environment"].items()
    }
    copies = {key for key in kafka["config"] if "replica" in key or key.endswith(".isr")}
    assert all(kafka["config"][key] in (2, 3) for key in copies)
    same = kafka["config"].keys() - copies
    assert {key: str(kafka["config"][key]).lower() for key in same} == {key: theirs[key] for key in same}
    assert not any(key.startswith(_OF_STRIMZI) for key in kafka["config"])
    dev = manifests.objects(manifests.kustomized("overlays/dev"))["StatefulSet/kafka"]
    own = {each["name"]: each["value"] for each in container(dev)["env"]}
    placed = {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"}
    assert {key: own[key] for key in own.keys() - placed} == {
        key: value for key, value in compose["services"]["kafka"]["environment"].items() if key not in placed
    }
    assert container(dev)["image"] == compose["services"]["kafka"]["image"]


def test_kafka_is_reached_where_strimzi_runs_it(production: dict[str, Manifest]) -> None:
    to_kafka = production["NetworkPolicy/moorage-kafka"]["spec"]["egress"][1]
    assert to_kafka == {
        "to": [{"podSelector": {"matchLabels": {"strimzi.io/cluster": CLUSTER, "strimzi.io/kind": "Kafka"}}}],
        "ports": [{"protocol": "TCP", "port": 9093}],
    }


def test_what_divides_partitions_grows_with_its_lag_up_to_their_number(
    production: dict[str, Manifest], workloads: dict[str, Manifest]
) -> None:
    scaled = {one["spec"]["scaleTargetRef"]["name"]: one["spec"] for one in of_kind(production, "ScaledObject")}
    # A chain commits offsets in the groups of its services.
    divided = {name: words for name, (_, *words) in COMMANDS.items() if words[0] in {*SERVICES} - UNDIVIDED}
    assert scaled.keys() == {f"moorage-{name}" for name in divided}
    roles = {role.name: role for role in kafka_roles.roles()}
    for name, services in divided.items():
        spec = scaled[f"moorage-{name}"]
        assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, PARTITIONS)
        assert "replicas" not in workloads[name]["spec"]
        groups = [trigger["metadata"]["consumerGroup"] for trigger in spec["triggers"]]
        assert groups == [f"moorage.{group}" for service in services for group in roles[service].groups]
        for trigger in spec["triggers"]:
            assert trigger["type"] == "kafka"
            # Each partition of each topic may be behind by the marker of a transaction for good.
            assert int(trigger["metadata"]["lagThreshold"]) > PARTITIONS * len(roles[name].reads)
            assert trigger["metadata"]["tls"] == "enable"
            assert trigger["metadata"]["bootstrapServers"] == f"{CLUSTER}-kafka-bootstrap.moorage.svc:9093"
            assert f"TriggerAuthentication/{trigger['authenticationRef']['name']}" in production
    others = workloads.keys() - divided.keys() - {TOPICS}
    assert {workloads[name]["spec"]["replicas"] for name in others} == {2}


def test_prometheus_scrapes_each_pod_once_and_by_a_port_that_is_there(
    production: dict[str, Manifest], workloads: dict[str, Manifest]
) -> None:
    scraped: dict[str, list[dict[str, Any]]] = {name: [] for name in workloads}
    for monitor in of_kind(production, "PodMonitor"):
        selector = monitor["spec"]["selector"]
        for name, one in workloads.items():
            labels = one["spec"]["template"]["metadata"]["labels"]
            without = [labels[each["key"]] in each["values"] for each in selector.get("matchExpressions", ())]
            if selector["matchLabels"].items() <= labels.items() and not any(without):
                scraped[name] += monitor["spec"]["podMetricsEndpoints"]
    assert scraped.pop(TOPICS) == []
    for name, endpoints in scraped.items():
        (endpoint,) = endpoints
        (port,) = container(workloads[name])["ports"]
        assert (endpoint["port"], endpoint["path"]) == (port["name"], "/metrics")
        assert ("authorization" in endpoint) == (endpoint.get("scheme") == "https") == (name == "gateway")


def test_the_alerts_are_those_of_the_one_file_of_rules(production: dict[str, Manifest]) -> None:
    rules = yaml.safe_load((ROOT / "ops" / "monitoring" / "rules.yaml").read_text("utf-8"))
    assert production["PrometheusRule/moorage"]["spec"]["groups"] == rules["groups"]


def test_the_dev_overlay_has_one_pod_of_each() -> None:
    found = manifests.objects(manifests.kustomized("overlays/dev"))
    replicas = {one["metadata"]["name"]: one["spec"].get("replicas") for one in manifests.workloads(found)}
    del replicas["moorage-topics-0-1-0"]
    assert set(replicas.values()) == {1}
    port = found["Service/moorage-kafka-bootstrap"]["spec"]["ports"][0]["port"]
    assert found["ConfigMap/moorage-settings"]["data"]["MOORAGE_BOOTSTRAP_SERVERS"] == f"moorage-kafka-bootstrap:{port}"
