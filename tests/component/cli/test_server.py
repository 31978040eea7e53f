"""Which server a command uses: what names it, and what a command does when nothing does."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Run, invoke, said

from moorage.cli.api import kubeconfig, runfile
from moorage.cli.api.client import Client
from moorage.cli.commands.simulate_request import HttpxTransport

GUESS = "http://127.0.0.1:8080"
VERSION = "v1.37.0+moorage-0.1.0"
POD = "/api/v1/namespaces/{}/pods/p"


def answers(version: str) -> httpx.Response:
    return httpx.Response(200, json={"major": "1", "gitVersion": version})


@pytest.fixture
def unnamed(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> FakeGateway:
    """A gateway at the default address, which nothing names."""
    monkeypatch.delenv("MOORAGE_SERVER")
    gateway.refuse["GET /version"] = answers(VERSION)
    gateway.node("n1")
    return gateway


def writes(gateway: FakeGateway) -> list[str]:
    return [method for method, _, _ in gateway.requests if method != "GET"]


@pytest.mark.usefixtures("unnamed")
def test_a_read_from_a_server_that_nothing_names_says_which_it_is(run: Run) -> None:
    code, out, err = said(run("get", "nodes", "-o", "name"))
    assert (code, out) == (0, "node/n1\n")
    assert err == f"Nothing names a server. This is the gateway at {GUESS} ({VERSION}).\n"


@pytest.mark.parametrize(
    "words",
    [
        ("taint", "node", "n1", "key:NoSchedule"),
        ("cordon", "n1"),
        ("delete", "node", "n1"),
        ("report", "node/n1", "Ready=False"),
        ("pause", "evictions"),
    ],
    ids=" ".join,
)
def test_nothing_is_written_to_a_server_that_nothing_names(
    unnamed: FakeGateway, run: Run, words: tuple[str, ...]
) -> None:
    code, _, err = said(run(*words))
    assert code == 1
    assert f"nothing is changed at {GUESS} ({VERSION})" in err
    assert f"--server {GUESS}" in err
    assert writes(unnamed) == []


@pytest.mark.parametrize("version", ["v1.37.0", "", "moorage"])
@pytest.mark.parametrize("words", [("get", "nodes"), ("delete", "node", "n1")], ids=" ".join)
def test_a_server_that_nothing_names_must_be_a_gateway(
    unnamed: FakeGateway, run: Run, words: tuple[str, ...], version: str
) -> None:
    unnamed.refuse["GET /version"] = answers(version) if version else httpx.Response(404, text="<html>")
    code, out, err = said(run(*words))
    assert (code, out) == (1, "")
    assert f"what listens at {GUESS} is not a gateway of Moorage" in err
    assert [path for _, path, _ in unnamed.requests] == ["/version"]


@pytest.mark.parametrize(
    "named", [("--server", "127.0.0.1:8080"), ("env", "MOORAGE_SERVER"), ("env", "MOORAGE_GATEWAY_PORT")], ids=str
)
def test_what_is_named_may_be_written_to(
    unnamed: FakeGateway, run: Run, monkeypatch: pytest.MonkeyPatch, named: tuple[str, str]
) -> None:
    words = named
    if named[0] == "env":
        monkeypatch.setenv(named[1], "8080" if "PORT" in named[1] else GUESS)
        words = ()  # type: ignore[assignment]  # no words
    assert said(run(*words, "cordon", "n1")) == (0, "node/n1 cordoned\n", "")
    assert writes(unnamed) == ["PATCH"]


def test_the_gateway_that_was_started_here_may_be_written_to(unnamed: FakeGateway, run: Run) -> None:
    running = runfile.Running(os.getpid(), "http://127.0.0.1:8099", "127.0.0.1:9", "moorage", "now")
    with runfile.claimed():
        runfile.write(running)
        assert said(run("cordon", "n1")) == (0, "node/n1 cordoned\n", "")
        assert f"server http://127.0.0.1:8099 (`moorage up`, process {os.getpid()})" in run("version").stdout
    assert said(run("uncordon", "n1"))[0] == 1
    assert writes(unnamed) == ["PATCH"]


# the kubeconfig


@pytest.mark.usefixtures("unnamed")
def test_a_kubeconfig_is_one_that_kubectl_reads(run: Run) -> None:
    code, out, err = said(run("kubeconfig", "--server", "http://127.0.0.1:8181", "-n", "team"))
    assert (code, err) == (0, "")
    found = yaml.safe_load(out)
    assert (found["apiVersion"], found["kind"], found["current-context"]) == ("v1", "Config", "moorage")
    assert found["clusters"][0]["cluster"]["server"] == "http://127.0.0.1:8181"
    assert found["contexts"] == [
        {"name": "moorage", "context": {"cluster": "moorage", "user": "moorage", "namespace": "team"}}
    ]
    assert "Nothing names a server" in said(run("kubeconfig"))[2]


def test_a_context_is_merged_into_a_file_and_is_then_the_server(unnamed: FakeGateway, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    foreign = {"name": "theirs", "cluster": {"server": "https://10.0.0.1"}}
    there = {
        "clusters": [foreign],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "theirs", "context": {"cluster": "theirs", "user": "u"}}],
        "current-context": "theirs",
    }
    file.write_text(yaml.safe_dump(there), "utf-8")
    assert said(run("cordon", "n1"))[0] == 1  # the current context is not for a gateway

    code, out, _ = said(run("kubeconfig", "--merge", "--server", "http://127.0.0.1:8181", "-n", "team"))
    assert (code, out) == (
        0,
        f'Context "moorage" for http://127.0.0.1:8181 written to {file}, and made the current one.\n',
    )
    merged = yaml.safe_load(file.read_text("utf-8"))
    assert merged["clusters"][0] == foreign
    assert merged["users"][0] == there["users"][0]
    assert file.stat().st_mode & 0o077 == 0

    assert said(run("cordon", "n1")) == (0, "node/n1 cordoned\n", "")
    assert f"(context moorage of {file})" in run("version").stdout
    unnamed.put(POD.format("team"), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}})
    assert said(run("get", "pod", "p", "-o", "name")) == (0, "pod/p\n", "")

    assert said(run("config", "use-context", "theirs"))[:2] == (0, 'Switched to context "theirs".\n')
    assert said(run("config", "current-context")) == (0, "theirs\n", "")
    assert said(run("uncordon", "n1"))[0] == 1
    assert said(run("--context", "moorage", "uncordon", "n1")) == (0, "node/n1 uncordoned\n", "")
    assert said(run("uncordon", "n1", "--context", "theirs"))[0] == 1


def test_contexts_are_listed_chosen_and_changed(run: Run, tmp_path: Path) -> None:
    assert said(run("config", "current-context")) == (1, "", "error: current-context is not set\n")
    assert said(run("kubeconfig", "--into", str(tmp_path / "kubeconfig"), "--name", "a"))[0] == 0
    assert said(run("kubeconfig", "--merge", "--name", "b", "--server", "http://127.0.0.1:2"))[0] == 0
    lines = run("config", "get-contexts").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE", "GATEWAY"],
        ["a", "a", "a", GUESS],
        ["*", "b", "b", "b", "http://127.0.0.1:2"],
    ]
    assert said(run("config", "get-contexts", "-o", "name")) == (0, "a\nb\n", "")
    assert said(run("config", "use-context", "c")) == (1, "", 'error: no context exists with the name: "c"\n')
    assert said(run("config", "set-context", "--current", "-n", "x")) == (0, 'Context "b" modified.\n', "")
    found = {one.name: one.namespace for one in kubeconfig.contexts(kubeconfig.load(tmp_path / "kubeconfig"))}
    assert found == {"a": "", "b": "x"}
    assert yaml.safe_load(run("config", "view").stdout)["current-context"] == "b"


# kubectl


def kubectl(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `moorage kubectl` with a kubectl that tells how it was called."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    program = programs / "kubectl"
    program.write_text('#!/bin/sh\necho "$@"\ncat "$KUBECONFIG"\n', "utf-8")
    program.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    own |= {"MOORAGE_STATE_DIR": str(folder / "state"), "PATH": f"{programs}:/usr/bin:/bin", **environment}
    return subprocess.run(
        [sys.executable, "-m", "moorage.cli", *words], env=own, capture_output=True, text=True, check=False
    )


def test_kubectl_gets_its_words_and_the_kubeconfig(tmp_path: Path) -> None:
    done = kubectl(
        tmp_path, "-n", "team", "kubectl", "get", "--help", "-o", "name", "--", "--color", MOORAGE_SERVER="http://h:1"
    )
    assert done.returncode == 0, done.stderr
    first, _, rest = done.stdout.partition("\n")
    assert first == "get --help -o name -- --color"
    (context,) = kubeconfig.contexts(yaml.safe_load(rest))
    assert (context.server, context.namespace) == ("http://h:1", "team")


def test_kubectl_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = kubectl(tmp_path, "kubectl", "get", "pods", PATH=str(tmp_path), MOORAGE_SERVER="http://h:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: kubectl is not installed")


@pytest.mark.usefixtures("unnamed")
def test_kubectl_writes_to_no_server_that_nothing_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kubectl"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = said(invoke("kubectl", "-n", "x", "delete", "pod", "p"))
    assert (code, out) == (1, "")
    assert f"nothing is changed at {GUESS}" in err


# words before the command


def test_a_namespace_may_come_before_the_command(gateway: FakeGateway, run: Run) -> None:
    for namespace in ("a", "b"):
        place = {"name": "p", "namespace": namespace}
        gateway.put(POD.format(namespace), {"apiVersion": "v1", "kind": "Pod", "metadata": place})
    assert said(run("-n", "a", "get", "pods", "-o", "name"))[1] == "pod/p\n"
    assert gateway.requests[-1][1] == "/api/v1/namespaces/a/pods"
    run("--namespace=a", "get", "pods", "-n", "b")
    assert gateway.requests[-1][1] == "/api/v1/namespaces/b/pods"
    gateway.node("n1")
    assert said(run("-n", "a", "adm", "cordon", "n1")) == (0, "node/n1 cordoned\n", "")


def test_the_version_is_an_option(run: Run) -> None:
    code, out, _ = said(run("--version"))
    assert code == 0
    assert out.startswith("moorage ")


@pytest.fixture
def servers(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that commands use."""
    found, connect = list[str](), functools.partial(Client, transport=HttpxTransport(httpx.MockTransport(gateway)))
    gateway.node("n1")

    def noted(server: str, **options: Any) -> Client:
        found.append(server)
        return connect(server, **options)

    monkeypatch.setattr("moorage.cli.api.endpoints.Client", noted)
    return found


@pytest.mark.parametrize(
    "words", [("--fleet-cluster", "east", "get", "nodes"), ("get", "nodes", "--fleet-cluster=east")], ids=" ".join
)
def test_a_command_is_about_the_cluster_that_is_chosen(servers: list[str], run: Run, words: tuple[str, ...]) -> None:
    code, out, _ = said(run(*words, "-o", "name"))
    assert (code, out) == (0, "node/n1\n")
    assert servers == [f"{GUESS}/clusters/east"]


def test_the_environment_names_the_cluster(servers: list[str], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_FLEET_CLUSTER", "east")
    run("get", "nodes")
    monkeypatch.setenv("MOORAGE_FLEET_CLUSTER", "")
    run("get", "nodes")
    assert servers == [f"{GUESS}/clusters/east", GUESS]


@pytest.mark.parametrize("name", ["East", "a/b", "-", "a:b"])
def test_the_name_of_a_cluster_is_checked(gateway: FakeGateway, run: Run, name: str) -> None:
    code, _, err = said(run(f"--fleet-cluster={name}", "get", "nodes"))
    assert code == 2
    assert f"--fleet-cluster: invalid value {name!r}: must be a name" in err
    assert gateway.requests == []


@pytest.mark.usefixtures("gateway")
def test_a_kubeconfig_for_a_cluster_has_its_path_and_a_name_of_its_own(run: Run) -> None:
    code, out, _ = said(run("kubeconfig", "--fleet-cluster", "east"))
    found = yaml.safe_load(out)
    assert code == 0
    assert found["clusters"][0]["cluster"]["server"].endswith("/clusters/east")
    assert found["current-context"] == "moorage-east"
