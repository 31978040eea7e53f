"""The forms of `-o`, and what selects and orders the objects of `get`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Object, Run, said
from tests.support.tables import table

from moorage.cli.errors import CliError
from moorage.cli.render.jsonpath import JsonPath, JsonPathError, relaxed, sorted_by

RECORDED = json.loads((Path(__file__).parent / "jsonpath.json").read_text("utf-8"))
"""Templates with what kubectl 1.37 makes of them, or the reason why it makes nothing."""


@table("case", RECORDED["cases"], ids=lambda case: case["template"])
def test_jsonpath_is_that_of_kubectl(case: dict[str, str]) -> None:
    if "error" in case:
        with pytest.raises(JsonPathError) as caught:
            JsonPath(case["template"]).text(RECORDED["object"])
        assert case["error"] in str(caught.value)
    else:
        assert JsonPath(case["template"]).text(RECORDED["object"]) == case["text"]


def test_jsonpath_of_every_value_is_in_the_order_of_the_names() -> None:
    """kubectl has none: its maps have no order."""
    assert JsonPath("{.metadata.labels.*}").text(RECORDED["object"]) == "web x"


@pytest.mark.parametrize("path", ["spec.n", ".spec.n", "{spec.n}", "{.spec.n}"])
def test_a_relaxed_path_may_lack_braces_and_dot(path: str) -> None:
    assert relaxed(path).values(RECORDED["object"]) == [3]


@pytest.mark.parametrize("path", ["", "{", "{.a}{.b}", "{.a"])
def test_a_relaxed_path_is_one_path(path: str) -> None:
    with pytest.raises(JsonPathError, match="unexpected path string"):
        relaxed(path)


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["n10", "n2", "n1"], ["n1", "n2", "n10"]),
        (["1Gi", "500Mi", "2"], ["2", "500Mi", "1Gi"]),
        ([3, 1.5, 2], [1.5, 2, 3]),
        ([2, None, 1], [None, 1, 2]),
        ([True, False], [False, True]),
        (["b", "a", "b"], ["a", "b", "b"]),
    ],
)
def test_values_are_sorted_as_people_sort_them(values: list[Any], order: list[Any]) -> None:
    items = [{"v": value} if value is not None else {} for value in values]
    assert [item.get("v") for item in sorted_by(items, ".v")] == order


@pytest.mark.parametrize("items", [[{"v": 1}, {"v": "a"}], [{"v": {}}], [{"w": 1}]], ids=str)
def test_what_cannot_be_sorted_is_told(items: list[Object]) -> None:
    with pytest.raises(CliError):
        sorted_by(items, ".v")


# get


@pytest.fixture
def nodes(gateway: FakeGateway) -> FakeGateway:
    for number, zone in ((10, "a"), (2, "b")):
        name = f"n{number}"
        gateway.put(
            f"/api/v1/nodes/{name}",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone, "disk": "ssd"}},
                "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
                "status": {"capacity": {"cpu": str(number)}},
            },
        )
    return gateway


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("jsonpath={.items[*].metadata.name}", "n10 n2"),
        ('jsonpath={range .items[*]}{.metadata.name}{"\\n"}{end}', "n10\nn2\n"),
        ("jsonpath-as-json={.items[*].metadata.name}", '[\n    "n10",\n    "n2"\n]\n'),
        ("go-template={{range .items}}{{.metadata.name}} {{end}}", "n10 n2 "),
        ("go-template={{len .items}}{{if exists . `nix`}}x{{end}} {{.nix}}", "2 <no value>"),
        (
            "custom-columns=NAME:.metadata.name,CPU:status.capacity.cpu,X:.x",
            "NAME   CPU   X\nn10    10    <none>\nn2     2     <none>\n",
        ),
        ("custom-columns=T:.spec.taints", "T\n[map[effect:NoSchedule key:k]]\n[map[effect:NoSchedule key:k]]\n"),
        ("name", "node/n10\nnode/n2\n"),
    ],
)
def test_a_list_in_each_form(run: Run, form: str, text: str) -> None:
    assert said(run("get", "nodes", "-o", form)) == (0, text, "")


@pytest.mark.usefixtures("nodes")
def test_one_object_in_each_form(run: Run) -> None:
    assert run("get", "node", "n2", "-o", "jsonpath={.metadata.name}").stdout == "n2"
    assert run("get", "node/n2", "-o=go-template={{.metadata.name}}").stdout == "n2"
    assert run("get", "node/n2", "--no-headers", "-o", "custom-columns=A:.kind").stdout == "Node\n"


@pytest.mark.usefixtures("nodes")
def test_templates_may_be_in_files(run: Run, tmp_path: Path) -> None:
    for form, template in {
        "jsonpath": "{.items[0].metadata.name}\n",
        "go-template": "{{(index .items 0).metadata.name}}\n",
        "custom-columns": "NAME\n.metadata.name\n",
    }.items():
        file = tmp_path / form
        file.write_text(template, "utf-8")
        out = run("get", "nodes", "-o", f"{form}-file={file}").stdout
        assert out == ("NAME\nn10\nn2\n" if form == "custom-columns" else "n10\n")


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(
    ("form", "code", "error"),
    [
        ("toml", 2, 'unable to match a printer suitable for the output format "toml"'),
        ("jsonpath", 1, "template format specified but no template given"),
        ("jsonpath={.a", 1, "error parsing jsonpath {.a, unclosed action"),
        ("go-template={{.a", 1, "error parsing template {{.a"),
        ("go-template={{index .items 9}}", 1, "error executing template"),
        ("custom-columns=A", 1, "unexpected custom-columns spec: A, expected <header>:<json-path-expr>"),
        ("jsonpath-file=/nix", 1, "error reading --template /nix"),
    ],
)
def test_what_is_wrong_with_a_form_is_told(run: Run, form: str, code: int, error: str) -> None:
    done = said(run("get", "nodes", "-o", form))
    assert done[:2] == (code, "")
    assert error in done[2]


@pytest.mark.usefixtures("nodes")
def test_labels_are_columns(run: Run) -> None:
    head, *rows = run("get", "nodes", "-L", "topology.kubernetes.io/zone,disk", "--show-labels").stdout.splitlines()
    assert head.split()[-3:] == ["ZONE", "DISK", "LABELS"]
    assert [row.split()[-3:-1] for row in rows] == [["a", "ssd"], ["b", "ssd"]]
    assert rows[0].endswith("disk=ssd,topology.kubernetes.io/zone=a")


@pytest.mark.usefixtures("nodes")
def test_objects_are_sorted(run: Run) -> None:
    assert run("get", "nodes", "-o", "name", "--sort-by", ".metadata.name").stdout == "node/n2\nnode/n10\n"
    names = [line.split()[0] for line in run("get", "nodes", "--sort-by=.status.capacity.cpu").stdout.splitlines()]
    assert names == ["NAME", "n2", "n10"]


def test_fields_select_and_lists_come_in_parts(nodes: FakeGateway, run: Run) -> None:
    run("get", "nodes", "--field-selector", "metadata.name=n2", "--chunk-size", "1")
    run("get", "nodes", "--chunk-size", "0", "-l", "zone in (a, b)")
    assert nodes.queries[-2:] == [
        {"fieldSelector": "metadata.name=n2", "limit": "1"},
        {"labelSelector": "zone in (a, b)"},
    ]


def test_every_part_of_a_list_is_read(nodes: FakeGateway, run: Run) -> None:
    nodes.in_parts = 1
    assert run("get", "nodes", "-o", "name").stdout == "node/n10\nnode/n2\n"
    assert [query.get("continue") for query in nodes.queries] == [None, "1"]


@pytest.mark.usefixtures("nodes")
def test_what_does_not_exist_may_be_ignored(run: Run) -> None:
    assert said(run("get", "node", "nix"))[0] == 1
    assert said(run("get", "node", "nix", "--ignore-not-found")) == (0, "", "")
    code, out, err = said(run("get", "node", "nix", "n2", "--ignore-not-found", "-o", "name"))
    assert (code, out, err) == (0, "node/n2\n", "")


def test_objects_of_files_and_raw_answers(nodes: FakeGateway, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}}
    nodes.put("/api/v1/namespaces/team/pods/p", pod)
    file.write_text(
        yaml.safe_dump_all([pod, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}}]), "utf-8"
    )
    assert said(run("get", "-f", str(file), "-o", "name")) == (0, "pod/p\nnode/n2\n", "")
    assert said(run("get", "pods", "-f", str(file)))[0] == 2
    assert json.loads(run("get", "--raw", "/api/v1/nodes/n2").stdout)["metadata"]["name"] == "n2"
    assert said(run("get", "nodes", "--raw", "/api/v1/nodes/n2"))[0] == 2
