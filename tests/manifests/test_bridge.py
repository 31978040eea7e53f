"""The bridge of ops/kubernetes: what it may do in its cluster, and whom it reaches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.manifests.test_base import FIELDS, OURS, PAGE, TOPICS, of_kind
from tests.manifests.test_network_policies import HTTPS, STRANGER, Connection, Peer, allowed, side
from tests.support import manifests
from tests.support.manifests import Manifest, component, container, environment, pod

from moorage.bridge.fleet_names import HOME
from moorage.bridge.kubernetes.bridge import BridgeAct
from moorage.bridge.kubernetes.cluster import MIRRORED
from moorage.cli.app import COMMANDS
from moorage.cli.commands import bridge as bridge_command
from moorage.runtime.settings import Settings

ACCOUNT = {"kind": "ServiceAccount", "name": "moorage-bridge", "namespace": "moorage"}
ACTS = ("taints", "evictions", "placement", "conditions")
READS = {"get", "list", "watch"}


@pytest.fixture(scope="module")
def found() -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized("overlays/bridge"))


@pytest.fixture(scope="module")
def bridge(found: dict[str, Manifest]) -> Manifest:
    return found["Deployment/moorage-bridge"]


def test_it_may_read_what_it_mirrors_and_its_acts_are_those_of_the_command(found: dict[str, Manifest]) -> None:
    identity, *rules = found["ClusterRole/moorage-bridge-mirror"]["rules"]
    assert identity == {
        "apiGroups": [""],
        "resources": ["namespaces"],
        "resourceNames": ["kube-system"],
        "verbs": ["get"],
    }
    paths = set()
    for rule in rules:
        ((group,), (resource,)) = rule["apiGroups"], rule["resources"]
        assert rule["verbs"] == ["list", "watch"]
        paths.add(f"/apis/{group}/v1/{resource}" if group else f"/api/v1/{resource}")
    assert paths == {one.path for one in MIRRORED}
    assert set(ACTS) == {act.value for act in BridgeAct}
    (lease,) = found["Role/moorage-bridge-election"]["rules"][1]["resourceNames"]
    assert lease == f"moorage-bridge-{HOME}"


def test_its_command_has_these_options(bridge: Manifest) -> None:
    name, kind, *options = container(bridge)["args"]
    assert name in COMMANDS
    command = typer.main.get_group(bridge_command.app).commands[kind]
    assert {one.partition("=")[0] for one in options} <= {opt for param in command.params for opt in param.opts}


def test_every_role_is_bound_to_the_bridge_alone(found: dict[str, Manifest]) -> None:
    cluster = {f"moorage-bridge-{name}" for name in ("mirror", *ACTS)}
    assert {one["metadata"]["name"] for one in of_kind(found, "ClusterRole")} == cluster
    for kind in ("ClusterRole", "Role"):
        for role in of_kind(found, kind):
            name = role["metadata"]["name"]
            binding = found[f"{kind}Binding/{name}"]
            assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
            assert binding["subjects"] == [ACCOUNT]
            assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def test_each_rule_is_one_need(found: dict[str, Manifest]) -> None:
    for role in [*of_kind(found, "ClusterRole"), *of_kind(found, "Role")]:
        rules = [
            (group, resource, verb, tuple(rule.get("resourceNames", ())))
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]
        assert len(set(rules)) == len(rules)
        assert all(len(rule["resources"]) == len(rule["apiGroups"]) == 1 for rule in role["rules"])
        assert "*" not in str(rules)


def test_a_bridge_that_only_mirrors_may_only_read(found: dict[str, Manifest]) -> None:
    for role in (found["ClusterRole/moorage-bridge-mirror"], found["Role/moorage-bridge-heartbeats"]):
        assert {verb for rule in role["rules"] for verb in rule["verbs"]} <= READS
    assert found["Role/moorage-bridge-heartbeats"]["metadata"]["namespace"] == "kube-node-lease"


def test_its_pods_are_as_all_others_but_for_the_account(found: dict[str, Manifest], bridge: Manifest) -> None:
    timer = found["Deployment/moorage-timer"]
    same = ("securityContext", "enableServiceLinks", "terminationGracePeriodSeconds")
    assert {key: pod(bridge)[key] for key in same} == {key: pod(timer)[key] for key in same}
    assert pod(bridge)["automountServiceAccountToken"] is True
    alike = ("image", "imagePullPolicy", "securityContext", "envFrom", "ports", "startupProbe", "readinessProbe")
    assert {key: container(bridge)[key] for key in alike} == {key: container(timer)[key] for key in alike}
    assert container(bridge)["livenessProbe"] == container(timer)["livenessProbe"]
    assert found["ServiceAccount/moorage-bridge"]["automountServiceAccountToken"] is False
    assert bridge["spec"]["strategy"] == timer["spec"]["strategy"]


def test_its_settings_are_valid_and_lead_to_the_gateway(found: dict[str, Manifest], bridge: Manifest) -> None:
    said = environment(found, bridge, FIELDS)
    known = {f"MOORAGE_{field.upper()}": field for field in Settings.model_fields}
    fields: dict[str, Any] = {known[name]: value for name, value in said.items() if name in known}
    assert said.keys() - known.keys() == {"MOORAGE_TOKEN_FILE", "MOORAGE_CA_FILE"}
    Settings(**fields)
    assert said["MOORAGE_SERVER"] == "https://moorage-gateway.moorage.svc"
    assert found["Service/moorage-gateway"]["spec"]["ports"][0]["port"] == 443
    assert f"--http-port={said['MOORAGE_HTTP_PORT']}" in container(bridge)["args"]
    assert f"--act={','.join(ACTS)}" in container(bridge)["args"]
    assert (
        f"--lease-namespace={found['Role/moorage-bridge-election']['metadata']['namespace']}"
        in (container(bridge)["args"])
    )


def test_it_reaches_the_gateway_and_api_servers(found: dict[str, Manifest]) -> None:
    policies = [one["spec"] for one in of_kind(found, "NetworkPolicy")]
    peers = {}
    for one in manifests.workloads(found):
        labels = tuple(one["spec"]["template"]["metadata"]["labels"].items())
        ports = tuple((each["name"], each["containerPort"]) for each in container(one).get("ports", ()))
        space = (("kubernetes.io/metadata.name", "moorage"),)
        peers[component(one)] = Peer(component(one), labels, "moorage", space, ports=ports)
    assert sorted(peers) == sorted([*OURS, TOPICS, "bridge"])
    own = peers["bridge"]
    assert {name for name, one in peers.items() if allowed(policies, own, one, HTTPS)} == {"gateway"}
    assert not any(allowed(policies, own, one, 8081) for one in peers.values())
    server = Peer("the API server", address="192.0.2.1")
    for port, reached in ((443, True), (6443, True), (9092, True), (80, False), (22, False)):
        assert side(policies, "Egress", Connection(own, server, port)) is reached, port
    assert not any(allowed(policies, STRANGER, own, port) for port in (8081, HTTPS))


def test_all_components_fit_together_in_the_order_of_the_page(tmp_path: Path) -> None:
    order = re.findall(r"^\| \[`([\w/]+)`\]\(\.\./ops/kubernetes/", PAGE, re.MULTILINE)
    there = {
        path.parent.relative_to(manifests.KUBERNETES).as_posix()
        for path in manifests.KUBERNETES.rglob("kustomization.yaml")
        if "kind: Component" in path.read_text("utf-8")
    }
    assert set(order) == there
    found = manifests.objects(manifests.combined(tmp_path, *order))
    for one in manifests.workloads(found):
        volumes = [each["name"] for each in pod(one)["volumes"]]
        mounts = [each["name"] for each in container(one)["volumeMounts"]]
        assert sorted(volumes) == sorted(mounts), one["metadata"]["name"]
        users = [each["secret"]["secretName"] for each in pod(one)["volumes"] if each["name"] == "kafka-user"]
        assert len(users) == 1
        assert f"KafkaUser/{users[0]}" in found
    spaces = {one["metadata"].get("namespace", "") for one in found.values()}
    assert spaces == {"", "moorage", "kube-node-lease"}
