"""The kind of docs/kinds.md, added in two files: the gateway serves it, and the command line knows it."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from docs import reference
from tests.component.gateway.double import NOW, Fixture, node_ref, pod
from typer.testing import CliRunner, Result

from moorage.apiserver.http.messages.selectors import selector
from moorage.apiserver.http.verbs.watch import Watch, events, start
from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.machinery.served_kinds import served_at
from moorage.cli.api.client import Client
from moorage.cli.app import app
from moorage.cli.commands.schemas import generated
from moorage.cli.commands.simulate_request import HttpxTransport
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import TIMERS

PAGE = Path(__file__).parents[3] / "docs" / "kinds.md"
PODS = "/api/v1/namespaces/default/pods"
BERTHS = "/apis/harbour.example/v1/namespaces/default/berths"
MODULES = ("moorage_schemas.resources.berth", "moorage.apiserver.kinds.berth")


def berth(name: str = "b1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "harbour.example/v1",
        "kind": "Berth",
        "metadata": {"name": name},
        "spec": {"length": 12, **spec},
    }


def boat(name: str, at: str) -> dict[str, Any]:
    """A pod at a berth."""
    labels = {"berth": at} if at else {}
    return {**pod(name), "metadata": {"name": name, "labels": labels}}


async def boats(gateway: Fixture) -> dict[str, int]:
    """The number of boats at each berth."""
    berths = (await gateway.ok("GET", BERTHS))["items"]
    return {one["metadata"]["name"]: one["status"]["boats"] for one in berths}


@pytest.fixture
def added(tmp_path: Path) -> Iterator[None]:
    """The two files of the page, discovered with the existing ones."""
    sources = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(sources) == len(MODULES)
    places = []
    for module, source in zip(MODULES, sources, strict=True):
        package, _, stem = module.rpartition(".")
        folder = tmp_path / package
        folder.mkdir()
        (folder / f"{stem}.py").write_text(source)
        path = importlib.import_module(package).__path__
        path.append(str(folder))
        places.append((path, str(folder)))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for path, place in places:
            path.remove(place)
        for module in MODULES:
            sys.modules.pop(module, None)


@pytest.fixture
def gateway(added: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fixture:  # noqa: ARG001 - the kind must exist
    """A gateway in memory that the command line uses."""
    found = Fixture()

    async def send(request: httpx.Request) -> httpx.Response:
        given = await found.http.request(
            request.method, str(request.url), headers=request.headers, content=request.content
        )
        return httpx.Response(given.status_code, headers=given.headers, content=given.content)

    transport = HttpxTransport(httpx.MockTransport(lambda request: asyncio.run(send(request))))
    monkeypatch.setattr("moorage.cli.api.endpoints.Client", functools.partial(Client, transport=transport))
    monkeypatch.setenv("MOORAGE_SERVER", "http://gateway")
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path / "state"))
    return found


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=text)


async def test_it_is_in_discovery(gateway: Fixture) -> None:
    groups = (await gateway.ok("GET", "/apis"))["groups"]
    (group,) = [one for one in groups if one["name"] == "harbour.example"]
    assert [one["version"] for one in group["versions"]] == ["v1", "v1beta1"]
    (resource,) = (await gateway.ok("GET", "/apis/harbour.example/v1"))["resources"]
    assert (resource["name"], resource["kind"], resource["shortNames"]) == ("berths", "Berth", ["bt"])


async def test_it_is_created_with_its_defaults_and_listed_in_each_version(gateway: Fixture) -> None:
    answer = await gateway.call("POST", BERTHS, berth(length=500))
    assert (answer.status_code, answer.json()["spec"]) == (201, {"side": "port", "length": 500})
    assert "no boat is that long" in answer.headers["warning"]
    (older,) = (await gateway.ok("GET", BERTHS.replace("/v1/", "/v1beta1/")))["items"]
    assert (older["apiVersion"], older["metadata"]["name"]) == ("harbour.example/v1beta1", "b1")


@pytest.mark.parametrize(
    ("spec", "field"), [({"length": 0}, "spec.length"), ({"size": 3}, "spec.size")], ids=["a rule", "an unknown field"]
)
async def test_it_is_validated(gateway: Fixture, spec: dict[str, Any], field: str) -> None:
    answer = await gateway.call("POST", BERTHS, berth(**spec))
    assert answer.status_code == 422
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == [field]


async def test_a_change_is_held_to_its_rules(gateway: Fixture) -> None:
    await gateway.ok("POST", BERTHS, berth())
    assert (await gateway.ok("PATCH", f"{BERTHS}/b1", {"spec": {"length": 20}}))["spec"]["length"] == 20
    answer = await gateway.call("PATCH", f"{BERTHS}/b1", {"spec": {"side": "starboard"}})
    assert (answer.status_code, "field is immutable" in answer.text) == (422, True)


async def test_its_status_counts_other_objects_by_an_index_of_its_own(gateway: Fixture) -> None:
    for name in ("b1", "b2"):
        await gateway.ok("POST", BERTHS, berth(name))
    for name, at in (("kestrel", "b1"), ("osprey", "b1"), ("heron", "")):
        await gateway.ok("POST", PODS, boat(name, at))
    assert await boats(gateway) == {"b1": 2, "b2": 0}
    await gateway.ok("PATCH", f"{PODS}/osprey", {"metadata": {"labels": {"berth": "b2"}}})
    assert await boats(gateway) == {"b1": 1, "b2": 1}
    await gateway.ok("DELETE", f"{PODS}/kestrel")
    assert await boats(gateway) == {"b1": 0, "b2": 1}


async def test_a_watch_gets_it_again_when_a_counted_object_changes(gateway: Fixture) -> None:
    for name in ("b1", "b2"):
        await gateway.ok("POST", BERTHS, berth(name))
    kind = served_at("harbour.example", "v1", "berths")
    assert kind is not None
    version = int((await gateway.ok("GET", BERTHS))["metadata"]["resourceVersion"])
    await gateway.ok("POST", PODS, boat("kestrel", "b1"))
    await gateway.ok("PATCH", f"{PODS}/kestrel", {"metadata": {"annotations": {"sail": "red"}}})
    await gateway.ok("PATCH", f"{PODS}/kestrel", {"metadata": {"labels": {"berth": "b2"}}})
    await gateway.ok("POST", PODS, boat("heron", "b3"))
    watched = Watch(kind=kind, namespace="", selected=selector("", ""), version=version)
    lines = events(gateway.store, watched, start(gateway.store, watched))
    async with asyncio.timeout(60):
        seen = [json.loads(line) for line in (await anext(lines)).splitlines()]
    assert [(one["type"], one["object"]["metadata"]["name"], one["object"]["status"]) for one in seen] == [
        ("MODIFIED", "b1", {"boats": 1}),
        ("MODIFIED", "b1", {"boats": 0}),
        ("MODIFIED", "b2", {"boats": 1}),
    ], "once for each change of its count, and for nothing else"


async def test_a_gateway_that_starts_later_counts_the_same(gateway: Fixture) -> None:
    await gateway.ok("POST", BERTHS, berth())
    await gateway.ok("POST", PODS, boat("kestrel", "b1"))
    later = Fixture(ready=False)
    for write in gateway.declared:
        later.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
    later.begin()
    assert await boats(later) == {"b1": 1}


async def test_what_it_refuses_is_not_done(gateway: Fixture) -> None:
    for name in ("b1", "last"):
        await gateway.ok("POST", BERTHS, berth(name))
    answer = await gateway.call("DELETE", f"{BERTHS}/last")
    assert (answer.status_code, answer.json()["message"]) == (
        403,
        'berths.harbour.example "last" is forbidden: the last berth stays',
    )
    await gateway.ok("DELETE", f"{BERTHS}/b1")


def test_the_command_line_applies_and_shows_it(gateway: Fixture) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quay"}}
    both = {"apiVersion": "v1", "kind": "List", "items": [namespace, berth()]}
    done = run("apply", "-f", "-", text=json.dumps(both))
    assert (done.exit_code, done.stdout) == (0, "berth.harbour.example/b1 created\nnamespace/quay created\n")
    assert run("apply", "-f", "-", text=json.dumps(berth())).stdout == "berth.harbour.example/b1 unchanged\n"
    assert [line.split()[:2] for line in run("get", "bt").stdout.splitlines()] == [["NAME", "LENGTH"], ["b1", "12"]]
    wide = [line.split() for line in run("get", "berths.v1beta1.harbour.example", "-o", "wide").stdout.splitlines()]
    assert (wide[0], wide[1][-1]) == (["NAME", "LENGTH", "AGE", "SIDE"], "port")
    assert json.loads(run("get", "berth", "b1", "-o", "json").stdout)["spec"] == {"side": "port", "length": 12}
    assert gateway.store.all("Berth")


def test_the_command_line_describes_it(gateway: Fixture) -> None:
    run("apply", "-f", "-", text=json.dumps(berth(side="starboard")))
    asyncio.run(gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}))
    told = run("describe", "berth/b1").stdout.splitlines()
    assert told[:2] == ["Name:           b1", "Namespace:      default"]
    assert told[-3:] == ["Length:         12 m", "Nodes:          1", "Events:         <none>"]


@pytest.mark.usefixtures("added")
def test_it_has_a_schema() -> None:
    schema = json.loads(generated()["resources/Berth.json"])
    assert schema["properties"]["apiVersion"]["enum"] == ["harbour.example/v1", "harbour.example/v1beta1"]


@pytest.mark.usefixtures("added")
def test_it_is_in_the_reference() -> None:
    page = reference.api()
    assert "| [Berth](#berth) | `harbour.example/v1beta1` | `berths` | `bt` |" in page
    assert page[page.index("\n## Berth\n") :].startswith("\n## Berth\n\nA berth.")


ALARM = """
from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.status.records import ObjectId


class AlarmKind(View):
    kind = "Alarm"
    plural = "alarms"
    singular = "alarm"
    namespaced = False
    made_from = "timers"

    def objects(self, key, record):
        yield ObjectId(self.kind, "", key.replace("/", "-"))


KIND = AlarmKind()
"""


@pytest.fixture
def alarm(tmp_path: Path) -> Iterator[None]:
    """A read-only kind in one file."""
    (tmp_path / "alarm.py").write_text(ALARM)
    path = importlib.import_module(kinds.PACKAGE).__path__
    path.append(str(tmp_path))
    importlib.invalidate_caches()
    yield
    path.remove(str(tmp_path))
    sys.modules.pop("moorage.apiserver.kinds.alarm", None)


@pytest.mark.usefixtures("alarm")
async def test_a_view_of_records_is_one_file() -> None:
    gateway = Fixture()
    timer = SetTimer(id="eviction/n1", generation=1, owner="eviction", deadline=NOW, target=node_ref("n1"))
    gateway.log.append(TIMERS, "eviction/n1", "eviction/n1", timer)
    (shown,) = (await gateway.ok("GET", "/apis/moorage.io/v1alpha1/alarms"))["items"]
    assert shown["metadata"]["name"] == "eviction-n1"
    assert shown["status"]["owner"] == "eviction"
    assert (await gateway.call("DELETE", "/apis/moorage.io/v1alpha1/alarms/eviction-n1")).status_code == 405
    gateway.log.append(TIMERS, "eviction/n1", "eviction/n1", None)
    assert (await gateway.ok("GET", "/apis/moorage.io/v1alpha1/alarms"))["items"] == []


SILENT = """
from moorage.apiserver.kinds.stored import ConfigMapKind


class OneKind(ConfigMapKind):
    kind = "One"
    plural = "ones"
    built_in = ("first",)


KIND = OneKind()
"""
"""A kind that does not say what its built-in object is."""


def test_without_its_files_it_is_not_there() -> None:
    assert kinds.named("Berth") is None
    assert kinds.named("Node") is not None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "must have a KIND"),
        ("KIND = 'Berth'", "must have a KIND"),
        (
            "from moorage.apiserver.kinds.kind import View\nclass One(View):\n    kind = 'One'\nKIND = One()",
            "it has no namespaced",
        ),
        (SILENT, "it names the built-in object first and has no built_in_object"),
        (
            "from moorage.apiserver.kinds.node import NodeKind\nKIND = NodeKind()",
            "another kind has the name Node or nodes",
        ),
    ],
)
def test_a_file_that_is_no_kind_is_refused(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "zz_new.py").write_text(source)
    path = importlib.import_module(kinds.PACKAGE).__path__
    path.append(str(tmp_path))
    importlib.invalidate_caches()
    try:
        with pytest.raises(TypeError, match=message):
            kinds.discovered()
    finally:
        path.remove(str(tmp_path))
        sys.modules.pop("moorage.apiserver.kinds.zz_new", None)
