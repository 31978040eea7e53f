"""Settings as flags of `moorage up` and `moorage run`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.component.cli.fake_gateway import Run, said
from typer.testing import CliRunner

from moorage.cli import flags
from moorage.cli.api import endpoints
from moorage.cli.app import WITH_SETTINGS, load
from moorage.cli.flags import FIELDS, SWITCHES, SwitchCommand, with_settings
from moorage.cli.local.stack import Stack
from moorage.runtime.settings.process_settings import Settings

UPSTREAM = """
--feature-gates --allow-no-execute-taint-policy --enable-no-execute-taint-eviction
--no-execute-taint-eviction-purge-mode --graceful-eviction-timeout --resource-eviction-rate
--node-monitor-grace-period --cluster-monitor-grace-period --node-monitor-period --node-eviction-rate
--secondary-node-eviction-rate --unhealthy-zone-threshold --large-cluster-size-threshold --cloud-provider
"""


def parsed(*words: str) -> Settings:
    """The settings with which a command with these arguments would run."""
    found: list[Settings] = []

    def command(*, flags: dict[str, str]) -> None:
        found.append(endpoints.load_settings(flags))

    app = typer.Typer(add_completion=False)
    app.command(cls=SwitchCommand)(with_settings(command))
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return found[0]


def test_every_flag_is_one_of_upstreams_names_or_our_own() -> None:
    options = {option for name in WITH_SETTINGS for parameter in load(name).params for option in parameter.opts}
    assert set(UPSTREAM.split()) <= options
    assert {flags.flag(field) for field in FIELDS} <= options
    assert {
        "allow_no_execute_taint_policy",
        "enable_no_execute_taint_eviction",
        "evict_without_replacement",
    } == SWITCHES


def test_where_they_listen_is_a_flag(run: Run) -> None:
    told = " ".join(said(run("up", "--help"))[1].split())
    port = "--gateway-port, --port NUMBER The gateway's port. 0 chooses a free one. [MOORAGE_GATEWAY_PORT; 8080]"
    assert port in told
    options = said(run("run", "--help"))[1]
    assert all(name in options for name in ("--http-host TEXT", "--http-port NUMBER", "--gateway-port NUMBER"))
    assert "--gateway-port" not in said(run("simulate", "--help"))[1]
    for words in (("up", "--port", "many"), ("run", "timer", "--gateway-port=many")):
        code, _, err = said(run(*words))
        assert (code, err.partition(": must be")[0]) == (2, "error: --gateway-port: invalid value 'many'")


def test_a_port_that_is_taken_is_told_with_the_flag(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = said(run("up", f"--port={taken.getsockname()[1]}"))
    assert code == 1
    assert err.startswith("error: the gateway cannot listen on port")
    assert "`moorage up --port`" in err


@pytest.mark.parametrize(
    ("words", "on"),
    [
        (("--allow-no-execute-taint-policy",), True),
        (("--allow-no-execute-taint-policy=true",), True),
        (("--allow-no-execute-taint-policy=false",), False),
        ((), False),
    ],
)
def test_a_switch_stands_alone_or_has_a_value(words: tuple[str, ...], *, on: bool) -> None:
    assert parsed(*words).allow_no_execute_taint_policy is on


def test_a_flag_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_FEATURE_GATES", "Failover=true")
    monkeypatch.setenv("MOORAGE_ALLOW_NO_EXECUTE_TAINT_POLICY", "true")
    assert parsed().failover
    found = parsed("--feature-gates=Failover=false", "--allow-no-execute-taint-policy=false")
    assert (found.failover, found.allow_no_execute_taint_policy) == (False, False)


def test_durations_and_rates_as_upstream_writes_them() -> None:
    found = parsed("--node-monitor-grace-period", "1m30s", "--node-eviction-rate=inf", "--feature-gates", "")
    assert found.node_monitor_grace_period == 90
    assert found.node_eviction_rate == float("inf")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--feature-gates=Failover=maybe", "error: --feature-gates: invalid value 'Failover=maybe': feature gate"),
        ("--feature-gates=Nix=true", "error: --feature-gates: invalid value 'Nix=true': feature gate 'Nix': must be"),
        ("--allow-no-execute-taint-policy=nope", "error: --allow-no-execute-taint-policy: invalid value 'nope'"),
        (
            "--node-monitor-grace-period=-3",
            "error: --node-monitor-grace-period: invalid value '-3': must be greater than or equal to 0",
        ),
        ("--unhealthy-zone-threshold=2", "error: --unhealthy-zone-threshold: invalid value '2'"),
        ("--source-grace-periods=Node:x", "error: --source-grace-periods: invalid value 'Node:x': item 'Node:x': must"),
        ("--cloud-provider=mine", "error: --cloud-provider: invalid value 'mine'"),
    ],
)
@pytest.mark.parametrize("command", [("run", "timer"), ("up",)])
def test_a_wrong_flag_is_named_before_anything_starts(
    run: Run, command: tuple[str, ...], word: str, message: str
) -> None:
    code, out, err = said(run(*command, word))
    assert (code, out) == (2, "")
    assert err.startswith(message), err


def test_children_get_what_was_chosen(tmp_path: Path) -> None:
    given = {"feature_gates": "Failover=true", "node_eviction_rate": "inf", "evict_without_replacement": "true"}
    chosen = endpoints.load_settings(given, bootstrap_servers="127.0.0.1:9", gateway_port=0)
    environment = flags.environment(chosen)
    assert environment["MOORAGE_FEATURE_GATES"] == "Failover=true"
    assert environment["MOORAGE_NODE_EVICTION_RATE"] == "inf"
    assert environment["MOORAGE_EVICT_WITHOUT_REPLACEMENT"] == "true"
    assert environment["MOORAGE_ALLOW_NO_EXECUTE_TAINT_POLICY"] == "false"
    values: dict[str, Any] = {name.removeprefix("MOORAGE_").lower(): value for name, value in environment.items()}
    again = Settings(**values)
    assert {field: getattr(again, field) for field in FIELDS} == {field: getattr(chosen, field) for field in FIELDS}
    specs = Stack(chosen, tmp_path, print)._specs(chosen, 1)
    assert len({spec.ready_url for spec in specs}) == len(specs)
    assert specs[-1].ready_url == "http://127.0.0.1:1/readyz"
    assert {spec.name for spec in specs} >= {"governor", "gateway"}
    assert all(environment.items() <= spec.environment.items() for spec in specs)


@pytest.mark.parametrize("together", [False, True])
def test_the_gateway_is_told_where_the_query_worker_is(tmp_path: Path, *, together: bool) -> None:
    settings = endpoints.load_settings({}, bootstrap_servers="127.0.0.1:9", gateway_port=0)
    *services, gateway = Stack(settings, tmp_path, print, together=together)._specs(settings, 1)
    (query,) = [spec for spec in services if "query" in spec.arguments]
    port = query.environment["MOORAGE_HTTP_PORT"]
    assert gateway.environment["MOORAGE_QUERY_SERVER"] == f"http://127.0.0.1:{port}"
    assert not any("MOORAGE_QUERY_SERVER" in spec.environment for spec in services)
    ports = [spec.environment["MOORAGE_HTTP_PORT"] for spec in (*services, gateway)]
    assert len(set(ports)) == len(ports)
