"""`apply` and `diff`: what they declare, what they take over, and their options."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Object, Run, said

from moorage.cli.api.applying import adopted, is_same

KUBECTLS = "kubectl.kubernetes.io/last-applied-configuration"
EARLIER = "moorage.io/last-applied-configuration"
MAP = "/api/v1/namespaces/default/configmaps/m"
WEB = "/apis/apps/v1/namespaces/default/deployments/web"
OLD = "2026-01-01T00:00:00Z"
OTHERS = {"f:data": {"f:others": {}}, "f:metadata": {"f:annotations": {"f:team": {}}}}


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


def entry(manager: str, fields: Object, operation: str = "Update", **more: str) -> Object:
    head = {"manager": manager, "operation": operation, "apiVersion": "v1", "time": OLD}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def managers(gateway: FakeGateway, path: str = MAP) -> dict[str, Any]:
    """The fields of each manager of an object."""
    return {
        f"{one['manager']} {one['operation']}": one["fieldsV1"]
        for one in gateway.objects[path]["metadata"]["managedFields"]
    }


def by_a_client(manager: str = "kubectl-client-side-apply", annotation: str = KUBECTLS) -> Object:
    """A ConfigMap as a client-side apply has left it, with fields of somebody else."""
    noted = json.dumps(config_map(a="1", b="2"))
    own = {"f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {"f:annotations": {f"f:{annotation}": {}}}}
    found = config_map(a="1", b="2", others="3")
    found["metadata"] |= {
        "namespace": "default",
        "annotations": {annotation: noted, "team": "x"},
        "managedFields": [entry(manager, own), entry("other", OTHERS)],
    }
    return found


def test_the_server_applies(gateway: FakeGateway, run: Run) -> None:
    assert apply(run, config_map(a="1")) == "configmap/m created\n"
    assert gateway.queries[-1] == {"fieldManager": "moorage", "fieldValidation": "Strict"}
    assert gateway.content_types[-1] == "application/apply-patch+yaml"
    method, path, sent = gateway.requests[-1]
    assert (method, path, sent["data"]) == ("PATCH", MAP, {"a": "1"})
    assert sent["metadata"] == {"name": "m", "namespace": "default"}
    assert apply(run, config_map(a="1")) == "configmap/m unchanged\n"
    assert apply(run, config_map(a="2"), words=("--server-side",)) == "configmap/m configured\n"
    assert managers(gateway) == {"moorage Apply": {"f:data": {"f:a": {}}}}


CONTAINERS = "f:spec", "f:containers", 'k:{"name":"c"}', "f:image"
FINALIZERS = "f:metadata", "f:finalizers", 'v:"x"'


def a_pod(*owned: tuple[str, ...], manager: str = "moorage", image: str = "i:1", **spec: Any) -> Object:
    fields: Object = {}
    for path in owned:
        node = fields
        for name in path:
            node = node.setdefault(name, {})
    metadata = {"managedFields": [entry(manager, fields, "Apply")] if owned else [], "finalizers": ["x"]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (a_pod(CONTAINERS), a_pod(CONTAINERS, nodeName="n1"), True),  # it was bound meanwhile
        (a_pod(CONTAINERS), a_pod(CONTAINERS, image="i:2"), False),
        (a_pod(CONTAINERS, manager="other"), a_pod(CONTAINERS), True),  # it was so before it was owned
        (a_pod(("f:spec", "f:nodeName"), nodeName="n1"), a_pod(CONTAINERS), False),  # a field was left out
        (a_pod(("f:spec", "f:containers")), a_pod(("f:spec", "f:containers"), image="i:2"), False),
        (a_pod(FINALIZERS), a_pod(FINALIZERS, image="i:2"), True),
        (a_pod(FINALIZERS), {"metadata": {"managedFields": a_pod(FINALIZERS)["metadata"]["managedFields"]}}, False),
        (a_pod(), a_pod(CONTAINERS, manager="other", nodeName="n1"), True),  # nothing was applied
        (a_pod(CONTAINERS), a_pod(), False),  # an answer without owners is compared as a whole
    ],
)
def test_the_fields_of_the_manager_decide_what_is_unchanged(before: Object, after: Object, *, same: bool) -> None:
    assert is_same(before, after, "moorage") is same


def test_a_field_that_is_left_out_goes(gateway: FakeGateway, run: Run) -> None:
    apply(run, config_map(a="1", b="2"))
    gateway.put(MAP, {**gateway.objects[MAP], "data": {"a": "1", "b": "2", "others": "3"}})
    assert apply(run, config_map(a="1")) == "configmap/m configured\n"
    assert gateway.objects[MAP]["data"] == {"a": "1", "others": "3"}


@pytest.mark.parametrize(
    ("manager", "annotation"),
    [("kubectl-client-side-apply", KUBECTLS), ("kubectl", KUBECTLS), ("moorage-cli", EARLIER)],
)
def test_what_a_client_has_applied_is_taken_over(gateway: FakeGateway, run: Run, manager: str, annotation: str) -> None:
    gateway.put(MAP, by_a_client(manager, annotation))
    assert apply(run, config_map(a="7")) == "configmap/m configured\n"
    assert gateway.objects[MAP]["data"] == {"a": "7", "others": "3"}
    assert gateway.objects[MAP]["metadata"]["annotations"] == {"team": "x"}
    assert managers(gateway) == {
        "moorage Apply": {"f:data": {"f:a": {}}},
        "other Update": OTHERS,
    }
    assert "force" not in gateway.queries[-1]
    assert apply(run, config_map(a="7")) == "configmap/m unchanged\n"
    assert len([method for method, _, _ in gateway.requests if method == "PATCH"]) == 3


def test_it_is_taken_over_although_somebody_else_is_faster(gateway: FakeGateway, run: Run) -> None:
    gateway.put(MAP, by_a_client())
    interferences = iter([True])

    def interfere(path: str) -> None:
        if next(interferences, False):
            gateway.put(path, {**gateway.objects[path], "data": {"a": "1", "b": "2", "others": "4"}})

    gateway.before_patch = interfere
    assert apply(run, config_map(a="1")) == "configmap/m configured\n"
    assert gateway.objects[MAP]["data"] == {"a": "1", "others": "4"}


def test_entries_of_clients_become_one_of_the_apply() -> None:
    notes: Object = {"f:metadata": {"f:annotations": {f"f:{KUBECTLS}": {}}}}
    entries = [
        entry("moorage", {"f:data": {"f:a": {}}}, "Apply"),
        entry("kubectl-client-side-apply", {"f:data": {"f:b": {}}, **notes}),
        entry("kubectl-client-side-apply", {"f:status": {}}, subresource="status"),
        entry("kubectl-label", {"f:metadata": {"f:labels": {"f:x": {}}}}),
    ]
    own, *others = adopted(entries, "moorage") or [{}]
    assert (own["manager"], own["operation"], own["fieldsV1"]) == (
        "moorage",
        "Apply",
        {"f:data": {"f:a": {}, "f:b": {}}, **notes},
    )
    assert others == entries[2:]
    assert adopted(others, "moorage") is None


def test_an_object_whose_fields_nobody_owns_is_taken_over(gateway: FakeGateway, run: Run) -> None:
    gateway.put(MAP, config_map(a="1", b="2"))
    assert apply(run, config_map(a="7")) == "configmap/m configured\n"
    assert gateway.objects[MAP]["data"] == {"a": "7", "b": "2"}


def test_fields_of_others_are_conflicts_unless_they_are_forced(gateway: FakeGateway, run: Run) -> None:
    apply(run, config_map(a="1"), words=("--field-manager=one",))
    code, out, err = said(run("apply", "-f", "-", text=yaml.safe_dump(config_map(a="2"))))
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert lines[0] == (
        "error when applying standard input, document 1: Error from server (Conflict): Apply failed with 1 conflict: "
        'conflict with "one": .data.a'
    )
    assert lines[1] == "Please review the fields above--they currently have other managers. Here"
    assert "  command with the `--force-conflicts` flag." in lines
    assert apply(run, config_map(a="2"), words=("--force-conflicts",)) == "configmap/m configured\n"
    assert gateway.queries[-1]["force"] == "true"
    assert managers(gateway) == {"moorage Apply": {"f:data": {"f:a": {}}}}


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
    assert apply(run, config_map(a="1"), words=("--dry-run=server",)) == "configmap/m created (server dry run)\n"
    assert gateway.objects == {}
    apply(run, config_map(a="1"))
    words = ("--dry-run=server", "--validate=warn", "--field-manager=me", "--force-conflicts")
    assert apply(run, config_map(a="2"), words=words) == "configmap/m configured (server dry run)\n"
    assert gateway.queries[-1] == {
        "dryRun": "All",
        "fieldManager": "me",
        "fieldValidation": "Warn",
        "force": "true",
    }
    assert apply(run, config_map(a="1"), words=("--dry-run=server",)) == "configmap/m unchanged (server dry run)\n"
    shown = yaml.safe_load(apply(run, config_map(a="2"), words=("--dry-run=server", "-o", "yaml")))
    assert shown["data"] == {"a": "2"}
    assert gateway.objects[MAP]["data"] == {"a": "1"}


def test_a_dry_run_and_a_difference_take_nothing_over(gateway: FakeGateway, run: Run) -> None:
    gateway.put(MAP, by_a_client())
    before = gateway.objects[MAP]
    assert apply(run, config_map(a="7"), words=("--dry-run=server",)) == "configmap/m configured (server dry run)\n"
    code, out, err = said(run("diff", "-f", "-", text=yaml.safe_dump(config_map(a="7"))))
    assert (code, err) == (1, "")
    changed = [line for line in out.splitlines() if line[0] in "+-" and line[1] not in "+-"]
    assert changed == ["-  a: '1'", "+  a: '7'"]
    assert gateway.objects[MAP] is before


@pytest.mark.parametrize(
    "words",
    [("-f", "-", "--dry-run=client"), ("-f", "-", "--dry-run=maybe"), ("-f", "-", "--validate=maybe"), ()],
    ids=" ".join,
)
def test_options_that_do_not_go_together_are_refused(gateway: FakeGateway, run: Run, words: tuple[str, ...]) -> None:
    assert said(run("apply", *words, text="{}"))[0] == 2
    assert gateway.requests == []
