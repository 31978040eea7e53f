"""The bridges of ops/kubernetes: their pods, whom they reach, and what the one to their own cluster may do there."""

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

from moorage.bridges.kubernetes.cluster_bridge import BridgeAct
from moorage.bridges.ocm.hub_bridge import HubAct
from moorage.cli.app import COMMANDS
from moorage.cli.commands import bridge as bridge_command
from moorage.runtime.settings.process_settings import Settings

ACCOUNT = {"kind": "ServiceAccount", "name": "moorage-bridge-home", "namespace": "moorage"}
NAMES = [one["name"] for one in manifests.BRIDGES]
KINDS = {one["name"]: one["kind"] for one in manifests.BRIDGES}
REMOTE = NAMES[1:]


@pytest.fixture(scope="module")
def home() -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized("overlays/bridge"))


@pytest.fixture(scope="module")
def found(home: dict[str, Manifest]) -> dict[str, Manifest]:
    """All bridges."""
    return {**home, **manifests.objects(manifests.kustomized("overlays/bridges"))}


@pytest.fixture(scope="module", params=NAMES)
def bridge(request: pytest.FixtureRequest, found: dict[str, Manifest]) -> Manifest:
    return found[f"Deployment/moorage-bridge-{request.param}"]


def kind_of(bridge: Manifest) -> str:
    return str(KINDS[name_of(bridge)])


def name_of(bridge: Manifest) -> str:
    return str(bridge["metadata"]["name"]).removeprefix("moorage-bridge-")


def options_of(bridge: Manifest) -> dict[str, str]:
    """The options of the command of a bridge."""
    return dict(one.split("=", 1) for one in container(bridge)["args"][2:])


def test_these_are_the_bridges(found: dict[str, Manifest]) -> None:
    deployments = {one["metadata"]["name"] for one in of_kind(found, "Deployment")}
    assert {one for one in deployments if "bridge" in one} == {f"moorage-bridge-{name}" for name in NAMES}


def test_its_command_takes_its_options(bridge: Manifest) -> None:
    name, kind, *_ = container(bridge)["args"]
    assert name in COMMANDS
    assert kind == kind_of(bridge)
    command = typer.main.get_group(bridge_command.app).commands[kind]
    assert options_of(bridge).keys() <= {opt for param in command.params for opt in param.opts}


def test_its_lease_is_where_its_role_permits_it(bridge: Manifest) -> None:
    options = options_of(bridge)
    acts = manifests.objects(manifests.kustomized(f"bridge/{kind_of(bridge)}/acts"))
    (space,) = {one["metadata"]["namespace"] for one in acts.values() if one["kind"] == "Role"}
    assert options.get("--lease-namespace", "") == (space if "--act" in options else "")


def test_its_labels_and_its_budget_are_its_own(found: dict[str, Manifest], bridge: Manifest) -> None:
    def chosen(selector: dict[str, str]) -> list[str]:
        return [
            one["metadata"]["name"]
            for one in manifests.workloads(found)
            if selector.items() <= one["spec"]["template"]["metadata"]["labels"].items()
        ]

    own = [bridge["metadata"]["name"]]
    assert chosen(bridge["spec"]["selector"]["matchLabels"]) == own
    budget = found[f"PodDisruptionBudget/{own[0]}"]["spec"]
    assert (chosen(budget["selector"]["matchLabels"]), budget["maxUnavailable"]) == (own, 1)
    spread = pod(bridge)["topologySpreadConstraints"]
    assert [chosen(each["labelSelector"]["matchLabels"]) for each in spread] == [own] * 2


def test_its_pods_are_as_all_others(found: dict[str, Manifest], bridge: Manifest) -> None:
    governor = found["Deployment/moorage-governor"]
    same = ("securityContext", "enableServiceLinks", "terminationGracePeriodSeconds")
    assert {key: pod(bridge)[key] for key in same} == {key: pod(governor)[key] for key in same}
    alike = ("image", "imagePullPolicy", "securityContext", "envFrom", "ports", "startupProbe", "readinessProbe")
    assert {key: container(bridge)[key] for key in alike} == {key: container(governor)[key] for key in alike}
    assert container(bridge)["livenessProbe"] == container(governor)["livenessProbe"]
    assert bridge["spec"]["strategy"] == governor["spec"]["strategy"]
    account = found[f"ServiceAccount/{pod(bridge)['serviceAccountName']}"]
    assert account["metadata"]["name"] == bridge["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False


def test_it_shows_its_account_to_its_own_cluster_or_a_kubeconfig_to_another(
    found: dict[str, Manifest], bridge: Manifest
) -> None:
    secrets = {each["name"]: each["secret"] for each in pod(bridge)["volumes"] if "secret" in each}
    places = {each["name"]: each["mountPath"] for each in container(bridge)["volumeMounts"]}
    assert all(one["defaultMode"] == 0o440 for one in secrets.values())
    is_remote = name_of(bridge) in REMOTE
    assert pod(bridge)["automountServiceAccountToken"] is not is_remote
    assert environment(found, bridge, FIELDS).get("KUBECONFIG", "") == (
        f"{places['kubeconfig']}/kubeconfig" if is_remote else ""
    )
    if is_remote:
        assert secrets["kubeconfig"]["secretName"] == f"moorage-bridge-{name_of(bridge)}-kubeconfig"


def test_a_token_of_the_cluster_is_for_the_gateway_that_accepts_it(tmp_path: Path) -> None:
    found = manifests.objects(manifests.combined(tmp_path, "bridge/cluster-token", bridges=manifests.BRIDGED))
    gateway = found["StatefulSet/moorage-gateway"]
    said = environment(found, gateway, FIELDS)
    places = {each["name"]: each["mountPath"] for each in container(gateway)["volumeMounts"]}
    assert said["MOORAGE_OIDC_JWKS"] == f"{places['cluster-keys']}/jwks.json"
    fields: dict[str, Any] = {
        key.removeprefix("MOORAGE_").lower(): value for key, value in said.items() if "_OIDC_" in key
    }
    Settings(**fields)
    assert said["MOORAGE_OIDC_USERNAME_PREFIX"] not in ("", "-"), "accounts of the fleet have the same names"
    for name in NAMES:
        one = found[f"Deployment/moorage-bridge-{name}"]
        (volume,) = [each for each in pod(one)["volumes"] if each["name"] == "bridge-token"]
        assert volume.keys() == {"name", "projected"}
        (source,) = volume["projected"]["sources"]
        assert source["serviceAccountToken"]["audience"] == said["MOORAGE_OIDC_CLIENT_ID"]
        place = next(each["mountPath"] for each in container(one)["volumeMounts"] if each["name"] == "bridge-token")
        token = environment(found, one, FIELDS)["MOORAGE_TOKEN_FILE"]
        assert token == f"{place}/{source['serviceAccountToken']['path']}"


def test_who_is_elsewhere_has_no_rights_here() -> None:
    found = manifests.objects(manifests.kustomized("overlays/bridges"))
    assert [one for one in found.values() if "Role" in one["kind"]] == []


def test_its_settings_are_valid_and_lead_to_the_gateway(found: dict[str, Manifest], bridge: Manifest) -> None:
    said = environment(found, bridge, FIELDS)
    known = {f"MOORAGE_{field.upper()}": field for field in Settings.model_fields}
    fields: dict[str, Any] = {known[name]: value for name, value in said.items() if name in known}
    assert said.keys() - known.keys() - {"KUBECONFIG"} == {"MOORAGE_TOKEN_FILE", "MOORAGE_CA_FILE"}
    Settings(**fields)
    assert said["MOORAGE_SERVER"] == "https://moorage-gateway.moorage.svc"
    assert found["Service/moorage-gateway"]["spec"]["ports"][0]["port"] == 443
    assert options_of(bridge)["--http-port"] == said["MOORAGE_HTTP_PORT"]


def test_bridges_reach_the_gateway_and_api_servers(found: dict[str, Manifest]) -> None:
    policies = [one["spec"] for one in of_kind(found, "NetworkPolicy")]
    peers = {}
    for one in manifests.workloads(found):
        labels = tuple(one["spec"]["template"]["metadata"]["labels"].items())
        ports = tuple((each["name"], each["containerPort"]) for each in container(one).get("ports", ()))
        space = (("kubernetes.io/metadata.name", "moorage"),)
        name = f"bridge-{name_of(one)}" if component(one) == "bridge" else component(one)
        peers[name] = Peer(name, labels, "moorage", space, ports=ports)
    assert sorted(peers) == sorted([*OURS, TOPICS, *(f"bridge-{name}" for name in NAMES)])
    for own in [peers[f"bridge-{name}"] for name in NAMES]:
        assert {name for name, one in peers.items() if allowed(policies, own, one, HTTPS)} == {"gateway"}
        assert not any(allowed(policies, own, one, 8081) for one in peers.values())
        server = Peer("the API server", address="192.0.2.1")
        for port, reached in ((443, True), (6443, True), (9092, True), (80, False), (22, False)):
            assert side(policies, "Egress", Connection(own, server, port)) is reached, port
        assert not any(allowed(policies, STRANGER, own, port) for port in (8081, HTTPS))


def test_the_bridge_to_its_own_cluster_has_the_roles_of_its_acts(home: dict[str, Manifest]) -> None:
    acts = options_of(home["Deployment/moorage-bridge-home"])["--act"].split(",")
    assert set(acts) == set(BridgeAct)
    there = [manifests.objects(manifests.kustomized(folder)) for folder in manifests.REMOTE["kubernetes"]]
    for kind in ("ClusterRole", "Role"):
        theirs = {one["metadata"]["name"]: one for each in there for one in of_kind(each, kind)}
        ours = {one["metadata"]["name"]: one for one in of_kind(home, kind)}
        assert ours.keys() == {f"{name}-home" for name in theirs}
        for name, role in theirs.items():
            own, binding = ours[f"{name}-home"], home[f"{kind}Binding/{name}-home"]
            assert own["rules"] == role["rules"]
            assert (
                own["metadata"].get("namespace")
                == binding["metadata"].get("namespace")
                == role["metadata"].get("namespace")
            )
            assert binding["subjects"] == [ACCOUNT]
            assert binding["roleRef"] == {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": kind,
                "name": f"{name}-home",
            }


def test_the_bridge_to_its_own_hub_has_the_roles_of_other_hubs() -> None:
    found = manifests.objects(manifests.kustomized("overlays/bridge/hub"))
    there = [manifests.objects(manifests.kustomized(folder)) for folder in manifests.REMOTE["ocm"]]
    theirs = {
        f"{one['metadata']['name']}-hub": one["rules"] for each in there for one in each.values() if "rules" in one
    }
    assert {one["metadata"]["name"]: one["rules"] for one in found.values() if "rules" in one} == theirs
    bridge = found["Deployment/moorage-bridge-hub"]
    account = {"kind": "ServiceAccount", "name": pod(bridge)["serviceAccountName"], "namespace": "moorage"}
    assert f"ServiceAccount/{account['name']}" in found
    assert [one["subjects"] for one in found.values() if "subjects" in one] == [[account]] * len(theirs)
    assert pod(bridge)["automountServiceAccountToken"] is True
    assert options_of(bridge)["--act"].split(",") == list(HubAct)


def test_all_components_and_bridges_fit_together_in_the_order_of_the_page(tmp_path: Path) -> None:
    order = re.findall(r"^\| \[`([\w/-]+)`\]\(\.\./ops/kubernetes/", PAGE, re.MULTILINE)
    there = {
        path.parent.relative_to(manifests.KUBERNETES).as_posix()
        for path in manifests.KUBERNETES.rglob("kustomization.yaml")
        if "kind: Component" in path.read_text("utf-8")
    }
    assert set(order) == there
    found = manifests.objects(manifests.combined(tmp_path, *order, bridges=manifests.BRIDGED))
    for one in manifests.workloads(found):
        volumes = [each["name"] for each in pod(one)["volumes"]]
        mounts = [each["name"] for each in container(one)["volumeMounts"]]
        assert sorted(volumes) == sorted(mounts), one["metadata"]["name"]
        users = [each["secret"]["secretName"] for each in pod(one)["volumes"] if each["name"] == "kafka-user"]
        assert len(users) == 1
        assert f"KafkaUser/{users[0]}" in found
    spaces = {one["metadata"].get("namespace", "") for one in found.values()}
    assert spaces == {"", "moorage", "kube-node-lease"}
