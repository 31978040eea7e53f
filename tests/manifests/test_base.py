"""ops/kubernetes/base agrees with compose.yaml, the services, the settings and what they listen on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from tests.support import manifests
from tests.support.manifests import Manifest, component, container, environment, pod
from tests.support.processes import COMMANDS, INGEST

from moorage.apiserver.http.filters.access import OPEN
from moorage.cli.local.services import GATEWAY, QUERY
from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.process.health import health_app
from moorage.runtime.settings.environment import variable
from moorage.runtime.settings.process_settings import Settings

ROOT = manifests.ROOT
TOPICS = "topics"
OURS = sorted(COMMANDS)
NAMES = {variable(field): field for field in Settings.model_fields}
FIELDS = {"metadata.name": "moorage-gateway-1", "metadata.namespace": manifests.NAMESPACE}
PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")

# Compose has further settings: the flags of `docker compose`, which are passed through, and those of commands that run
# in the container of the gateway.
OF_COMPOSE_ALONE = {"MOORAGE_TOKEN_FILE", "MOORAGE_CA_FILE"}


@pytest.fixture(scope="module")
def base() -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized("base"))


@pytest.fixture(scope="module")
def workloads(base: dict[str, Manifest]) -> dict[str, Manifest]:
    return {component(one): one for one in manifests.workloads(base)}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return document


def test_every_process_has_a_workload_with_the_command_and_the_settings_of_compose(
    base: dict[str, Manifest], workloads: dict[str, Manifest], compose: dict[str, Any]
) -> None:
    assert sorted(workloads) == sorted([*OURS, TOPICS])
    for name in OURS:
        theirs = compose["services"][name]
        one = workloads[name]
        assert one["kind"] == ("StatefulSet" if name == GATEWAY else "Deployment")
        assert container(one)["args"] == theirs["command"]
        assert container(one)["image"] == theirs["image"]
        given = {
            key for key, value in theirs["environment"].items() if value is not None and key.startswith("MOORAGE_")
        }
        assert {key for key in environment(base, one, FIELDS) if key.startswith("MOORAGE_")} - {
            "MOORAGE_WEBHOOK_SECRETS_DIR"
        } == given - OF_COMPOSE_ALONE
    assert container(workloads[TOPICS])["args"] == ["topics", "apply", "--yes"]


def test_every_variable_is_a_setting_with_a_valid_value(
    base: dict[str, Manifest], workloads: dict[str, Manifest]
) -> None:
    for one in workloads.values():
        said = environment(base, one, FIELDS)
        ours = {name: value for name, value in said.items() if name.startswith("MOORAGE_")}
        assert ours.keys() <= NAMES.keys()
        fields: dict[str, Any] = {NAMES[name]: value for name, value in ours.items()}
        Settings(**fields)
        assert not any("$(" in value for value in said.values())


def test_services_do_not_put_variables_into_pods(base: dict[str, Manifest], workloads: dict[str, Manifest]) -> None:
    """A kubelet would add one for each Service, and one of these has the name of a setting."""
    linked = {f"{one['metadata']['name'].upper().replace('-', '_')}_PORT" for one in of_kind(base, "Service")}
    assert linked & NAMES.keys() == {"MOORAGE_GATEWAY_PORT"}
    assert [name for name, one in workloads.items() if pod(one)["enableServiceLinks"] is not False] == []


def test_probes_ask_what_is_served_there(base: dict[str, Manifest], workloads: dict[str, Manifest]) -> None:
    served = {getattr(route, "path", "") for route in health_app(list).routes}
    for name in OURS:
        one = container(workloads[name])
        said = environment(base, workloads[name], FIELDS)
        setting, scheme, paths = ("MOORAGE_HTTP_PORT", "HTTP", served)
        if name == GATEWAY:
            setting, scheme, paths = ("MOORAGE_GATEWAY_PORT", "HTTPS", set(OPEN))
        (port,) = one["ports"]
        assert str(port["containerPort"]) == said[setting]
        for probe, path in (("startupProbe", "/healthz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
            asked = one[probe]["httpGet"]
            assert (asked["path"], asked["port"], asked.get("scheme", "HTTP")) == (path, port["name"], scheme)
            assert path in paths
    assert not any(word in container(workloads[TOPICS]) for word in ("startupProbe", "readinessProbe", "livenessProbe"))


def test_pods_have_no_rights_on_the_machine_and_none_in_the_cluster(
    base: dict[str, Manifest], workloads: dict[str, Manifest]
) -> None:
    for name, one in workloads.items():
        spec = pod(one)
        assert spec["automountServiceAccountToken"] is False
        assert spec["serviceAccountName"] == f"moorage-{name}"
        assert base[f"ServiceAccount/moorage-{name}"]["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container(one)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container(one)["resources"]["limits"]["memory"]
        assert container(one)["resources"]["requests"].keys() == {"cpu", "memory"}
    assert f"--uid {pod(workloads[GATEWAY])['securityContext']['runAsUser']} " in (
        ROOT / "ops" / "Dockerfile"
    ).read_text("utf-8")


def test_a_pod_has_time_to_finish_its_transaction(workloads: dict[str, Manifest]) -> None:
    transaction = Settings.model_fields["transaction_timeout_ms"].default / 1000
    for name, one in workloads.items():
        waits = container(one).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        assert waits == (5 if name == GATEWAY else 0)
        assert pod(one)["terminationGracePeriodSeconds"] > transaction + waits


def test_what_belongs_to_a_service_chooses_its_pods_alone(
    base: dict[str, Manifest], workloads: dict[str, Manifest]
) -> None:
    def chosen(selector: dict[str, str]) -> list[str]:
        return [
            name
            for name, one in workloads.items()
            if selector.items() <= one["spec"]["template"]["metadata"]["labels"].items()
        ]

    for name in OURS:
        one = workloads[name]
        assert one["spec"]["replicas"] == 2
        assert chosen(one["spec"]["selector"]["matchLabels"]) == [name]
        budget = base[f"PodDisruptionBudget/moorage-{name}"]["spec"]
        assert chosen(budget["selector"]["matchLabels"]) == [name]
        assert budget["maxUnavailable"] == 1
        spread = pod(one)["topologySpreadConstraints"]
        assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        assert [chosen(each["labelSelector"]["matchLabels"]) for each in spread] == [[name]] * 2
    for one in of_kind(base, "Service"):
        assert chosen(one["spec"]["selector"]) == [component(one)]
        (port,) = one["spec"]["ports"]
        assert port["targetPort"] in {each["name"] for each in container(workloads[component(one)])["ports"]}


def test_addresses_are_those_of_services(base: dict[str, Manifest], workloads: dict[str, Manifest]) -> None:
    said = environment(base, workloads[GATEWAY], FIELDS)
    query = base["Service/moorage-query"]["spec"]["ports"][0]["port"]
    assert said["MOORAGE_QUERY_SERVER"] == f"http://moorage-query:{query}"
    single = base["Service/moorage-gateways"]
    assert single["spec"]["clusterIP"] == "None"
    assert single["spec"]["publishNotReadyAddresses"] is True, "none is ready before it has reached the leader"
    assert workloads[GATEWAY]["spec"]["serviceName"] == "moorage-gateways"
    port = single["spec"]["ports"][0]["port"]
    assert said["MOORAGE_GATEWAY_ADDRESS"] == f"https://moorage-gateway-1.moorage-gateways.moorage.svc:{port}"
    assert str(port) == said["MOORAGE_GATEWAY_PORT"]


def test_secrets_are_what_the_page_makes(
    base: dict[str, Manifest], workloads: dict[str, Manifest], tmp_path: Path
) -> None:
    """`moorage identities` with the names of the page makes the files that the page puts into the Secrets."""
    (command,) = re.findall(r"^MOORAGE_STATE_DIR=\S+ moorage identities(.*)$", PAGE, re.MULTILINE)
    names = re.findall(r"--name '?([^' ]+)'?", command)
    made = GatewayIdentities.in_state(tmp_path)
    made.ensure()
    certificate, _ = made.server_certificate(names)
    covered = x509.load_pem_x509_certificate(certificate.read_bytes()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    hosts = set(covered.value.get_values_for_type(x509.DNSName))
    assert {"moorage-gateway.moorage.svc", "*.moorage-gateways.moorage.svc"} <= hosts
    secrets = dict(re.findall(r"create secret generic (\S+) \\?\n?((?:\s*--from-file=state/\S+(?: \\\n)?)+)", PAGE))
    files = {
        name: {Path(path).name for path in re.findall(r"--from-file=(\S+)", words)} for name, words in secrets.items()
    }
    assert all((made.folder / name).exists() for each in files.values() for name in each)
    wanted: dict[str, set[str]] = {}
    for name in OURS:
        spec, said = pod(workloads[name]), environment(base, workloads[name], FIELDS)
        places = {each["name"]: each["mountPath"] for each in container(workloads[name])["volumeMounts"]}
        for volume in spec["volumes"]:
            if secret := volume.get("secret"):
                assert secret["defaultMode"] == 0o440
                place = places[volume["name"]] + "/"
                used = {value.removeprefix(place) for value in said.values() if value.startswith(place)}
                wanted.setdefault(secret["secretName"], set()).update(used)
    assert wanted.pop("moorage-webhook-secrets") == set()
    assert files == wanted
    holders = {name for name in OURS if "moorage-gateway-identities" in str(pod(workloads[name])["volumes"])}
    assert holders == {GATEWAY}
    holders = {name for name in OURS if "moorage-signing-key" in str(pod(workloads[name])["volumes"])}
    assert holders == {GATEWAY, QUERY, INGEST}


def test_the_namespace_enforces_the_strictest_standard(base: dict[str, Manifest]) -> None:
    labels = base["Namespace/moorage"]["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "warn", "audit")} == {"restricted"}
    assert {one["metadata"].get("namespace") for key, one in base.items() if not key.startswith("Namespace/")} == {
        "moorage"
    }


def test_versions_are_those_of_the_project(base: dict[str, Manifest]) -> None:
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    version = found[1]
    chart = yaml.safe_load((manifests.CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert f"Job/moorage-topics-{version.replace('.', '-')}" in base
    assert {one["metadata"]["labels"]["app.kubernetes.io/version"] for one in base.values()} == {version}


def of_kind(found: dict[str, Manifest], kind: str) -> list[Manifest]:
    return [one for one in found.values() if one["kind"] == kind]
