"""`apply`: the annotation that it shares with kubectl, the three-way merge, and its options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Object, Run, said

from moorage.cli.api import kustomization
from moorage.cli.errors import CliError

KUBECTLS = "kubectl.kubernetes.io/last-applied-configuration"
EARLIER = "moorage.io/last-applied-configuration"
MAP = "/api/v1/namespaces/default/configmaps/m"
WEB = "/apis/apps/v1/namespaces/default/deployments/web"


def config_map(**data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


def deployment(*containers: Object) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": list(containers)}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def apply(run: Run, *documents: Object, words: tuple[str, ...] = ()) -> str:
    code, out, err = said(run("apply", "-f", "-", *words, text=yaml.safe_dump_all(documents)))
    assert (code, err) == (0, "")
    return out


def notes(gateway: FakeGateway, path: str) -> dict[str, str]:
    found: dict[str, str] = gateway.objects[path]["metadata"]["annotations"]
    return found


def test_what_is_applied_is_noted_byte_for_byte_as_kubectl_notes_it(gateway: FakeGateway, run: Run) -> None:
    apply(run, config_map(b="<&>", a="ü", c="3"))
    # As `kubectl apply` of 1.32 has written it for the same manifest.
    assert notes(gateway, MAP)[KUBECTLS] == (
        '{"apiVersion":"v1","data":{"a":"ü","b":"\\u003c\\u0026\\u003e","c":"3"},"kind":"ConfigMap",'
        '"metadata":{"annotations":{},"name":"m","namespace":"default"}}\n'
    )
    assert gateway.queries[-1]["fieldManager"] == "kubectl-client-side-apply"


@pytest.mark.parametrize("annotation", [KUBECTLS, EARLIER])
def test_a_field_that_is_left_out_goes_whichever_has_applied_it(
    gateway: FakeGateway, run: Run, annotation: str
) -> None:
    before = {**config_map(a="1", b="2"), "metadata": {"name": "m", "namespace": "default"}}
    live = {**before, "data": {"a": "1", "b": "2", "others": "3"}}
    live["metadata"] = {**before["metadata"], "annotations": {annotation: json.dumps(before), "team": "x"}}
    gateway.put(MAP, live)
    assert apply(run, config_map(a="1")) == "configmap/m configured\n"
    assert gateway.objects[MAP]["data"] == {"a": "1", "others": "3"}
    assert notes(gateway, MAP).keys() == {KUBECTLS, "team"}
    assert apply(run, config_map(a="1")) == "configmap/m unchanged\n"


def test_both_annotations_count_and_one_is_left(gateway: FakeGateway, run: Run) -> None:
    noted = {EARLIER: json.dumps(config_map(a="1", old="2")), KUBECTLS: json.dumps(config_map(a="1", new="3"))}
    live = {
        **config_map(a="1", old="2", new="3"),
        "metadata": {"name": "m", "namespace": "default", "annotations": noted},
    }
    gateway.put(MAP, live)
    apply(run, config_map(a="1"))
    assert gateway.objects[MAP]["data"] == {"a": "1"}
    assert notes(gateway, MAP).keys() == {KUBECTLS}


def test_lists_are_merged_by_the_keys_of_their_kind(gateway: FakeGateway, run: Run) -> None:
    apply(run, deployment({"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}))
    live = gateway.objects[WEB]
    containers = live["spec"]["template"]["spec"]["containers"]
    containers[0]["imagePullPolicy"] = "Always"
    containers.append({"name": "injected", "image": "i:1"})
    gateway.put(WEB, live)

    assert apply(run, deployment({"name": "a", "image": "a:2"})) == "deployment.apps/web configured\n"
    assert gateway.objects[WEB]["spec"]["template"]["spec"]["containers"] == [
        {"name": "a", "image": "a:2", "imagePullPolicy": "Always"},
        {"name": "injected", "image": "i:1"},
    ]


def test_a_dry_run_changes_nothing(gateway: FakeGateway, run: Run) -> None:
    assert apply(run, config_map(a="1"), words=("--dry-run=client",)) == "configmap/m created (dry run)\n"
    assert [method for method, _, _ in gateway.requests] == ["GET"]
    apply(run, config_map(a="1"))
    done = apply(run, config_map(a="2"), words=("--dry-run=client",))
    assert done == "configmap/m configured (dry run)\n"
    assert gateway.objects[MAP]["data"] == {"a": "1"}
    shown = yaml.safe_load(apply(run, config_map(a="2"), words=("--dry-run=client", "-o", "yaml")))
    assert shown["data"] == {"a": "2"}
    apply(run, config_map(a="3"), words=("--dry-run=server", "--validate=strict", "--field-manager=me"))
    assert gateway.queries[-1] == {"dryRun": "All", "fieldManager": "me", "fieldValidation": "Strict"}


def test_the_server_may_apply(gateway: FakeGateway, run: Run) -> None:
    gateway.put(MAP, config_map(a="1"))
    out = apply(run, config_map(a="2"), words=("--server-side", "--force-conflicts"))
    assert out == "configmap/m serverside-applied\n"
    assert gateway.queries[-1] == {"fieldManager": "kubectl", "force": "true", "fieldValidation": "Strict"}
    assert gateway.content_types[-1] == "application/apply-patch+yaml"
    method, path, sent = gateway.requests[-1]
    assert (method, path, sent["data"]) == ("PATCH", MAP, {"a": "2"})
    assert sent["metadata"] == {"name": "m", "namespace": "default"}


@pytest.mark.parametrize(
    "words",
    [
        ("-f", "-", "--force-conflicts"),
        ("-f", "-", "--server-side", "--dry-run=client"),
        ("-f", "-", "--dry-run=maybe"),
        ("-f", "-", "--validate=maybe"),
        ("-f", "-", "--prune"),
        ("-f", "-", "-k", "."),
        (),
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together_are_refused(gateway: FakeGateway, run: Run, words: tuple[str, ...]) -> None:
    assert said(run("apply", *words, text="{}"))[0] == 2
    assert gateway.requests == []


def test_what_was_applied_and_is_not_in_the_files_is_pruned(gateway: FakeGateway, run: Run) -> None:
    def labeled(name: str) -> Object:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "x"}}}

    apply(run, labeled("keep"), labeled("gone"))
    gateway.put("/api/v1/namespaces/default/configmaps/theirs", {**labeled("theirs")})
    words = ("--prune", "-l", "app=x", "--prune-allowlist", "core/v1/ConfigMap")
    assert apply(run, labeled("keep"), words=(*words, "--dry-run=client")).endswith("configmap/gone pruned (dry run)\n")
    assert apply(run, labeled("keep"), words=words) == "configmap/keep unchanged\nconfigmap/gone pruned\n"
    assert {path.rpartition("/")[2] for path in gateway.objects} == {"keep", "theirs"}


# folders with a kustomization


def folder(path: Path, **files: Any) -> Path:
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        (path / f"{name}.yaml").write_text(text, "utf-8")
    return path


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubectl and no kustomize."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("alone")
def test_a_kustomization_is_built_here(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    base = folder(
        tmp_path / "base",
        web=deployment({"name": "a", "image": "registry:5000/a:1"}, {"name": "b", "image": "b"}),
        kustomization={"resources": ["web.yaml"], "commonLabels": {"team": "x"}},
    )
    top = folder(
        tmp_path / "top",
        more={
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": 5, "template": {"spec": {"containers": [{"name": "b", "image": "b:7"}]}}},
        },
        kustomization={
            "resources": ["../base"],
            "namespace": "prod",
            "namePrefix": "p-",
            "nameSuffix": "-x",
            "labels": [{"pairs": {"tier": "y"}}],
            "commonAnnotations": {"note": "n"},
            "images": [{"name": "registry:5000/a", "newTag": "2"}],
            "patches": [{"path": "more.yaml"}],
            "configMapGenerator": [{"name": "c", "literals": ["k=v=w"], "options": {"disableNameSuffixHash": True}}],
        },
    )
    assert base.is_dir()
    code, out, err = said(run("apply", "-k", str(top)))
    assert (code, err) == (0, "")
    assert set(out.splitlines()) == {"configmap/p-c-x created", "deployment.apps/p-web-x created"}
    made = gateway.objects["/apis/apps/v1/namespaces/prod/deployments/p-web-x"]
    assert made["spec"]["replicas"] == 5
    assert made["metadata"]["labels"] == {"team": "x", "tier": "y"}
    assert made["metadata"]["annotations"]["note"] == "n"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "team": "x"}
    template = made["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "web", "team": "x"}
    assert template["spec"]["containers"] == [
        {"name": "a", "image": "registry:5000/a:2"},
        {"name": "b", "image": "b:7"},
    ]
    assert gateway.objects["/api/v1/namespaces/prod/configmaps/p-c-x"]["data"] == {"k": "v=w"}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"helmCharts": []}, "helmCharts: not supported without kubectl or kustomize"),
        ({"secretGenerator": [], "vars": []}, "secretGenerator, vars: not supported"),
        ({"resources": ["https://example.com/x.yaml"]}, "resources from other machines"),
        ({"configMapGenerator": [{"name": "c"}]}, "configMapGenerator without disableNameSuffixHash: true"),
        ({"resources": ["web.yaml"], "patches": [{"patch": "[{op: add}]"}]}, "JSON patches: not supported"),
        ({"resources": ["web.yaml"], "patches": [{"patch": "{kind: Pod, metadata: {name: x}}"}]}, "no object matches"),
        ({"resources": ["nix.yaml"]}, "does not exist"),
        ({"resources": ["."]}, "without end"),
    ],
    ids=str,
)
def test_what_a_kustomization_cannot_be_built_with_is_named(tmp_path: Path, content: Object, error: str) -> None:
    place = folder(tmp_path / "k", web=deployment(), kustomization=content)
    with pytest.raises(CliError, match=error):
        kustomization.built(place)


def test_an_installed_kubectl_builds_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho "built: $*"\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert kustomization.built(tmp_path) == f"built: kustomize {tmp_path}\n"
