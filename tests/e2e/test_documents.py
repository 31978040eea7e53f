"""Pages about clusters, nodes and machine sets, as written: every snippet and command, and what they say these do.

The pages are our own, in tests/support/pages. Where `MOORAGE_DOCUMENTS` names a folder of documents, those are held to
the same.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncIterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support import documents
from tests.support.brokers import Broker
from tests.support.commands import Done, moorage
from tests.support.live import Live, running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

SET = "machineset1"
EDITOR = """
import pathlib, sys, yaml

def merge(into, change):
    for name, value in change.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        else:
            into[name] = value

wanted, file = (pathlib.Path(word) for word in sys.argv[1:])
found = yaml.safe_load(file.read_text())
merge(found, yaml.safe_load(wanted.read_text()))
file.write_text(yaml.safe_dump(found))
"""


class Told:
    """What some pages say."""

    def __init__(self, pages: documents.Pages) -> None:
        self.examples = pages.examples
        self.commands = pages.commands
        self.flags = documents.flags(pages.paths[0])
        """The first page names the flags."""
        self.policies = [one.value for one in self.examples if one.value.get("kind") == "ClusterTaintPolicy"]
        self.system_taints = [one for path in pages.paths for one in documents.system_taints(path)]

    @cached_property
    def machines(self) -> str:
        """The namespace of the machine set."""
        (found,) = (one.value["metadata"] for one in self.examples if one.value.get("kind") == "MachineSet")
        return str(found["namespace"])

    @cached_property
    def template(self) -> dict[str, Any]:
        """The part of a machine set's template that the pages show."""
        (found,) = (one.value["spec"]["template"] for one in self.examples if "template" in one.value.get("spec", {}))
        template: dict[str, Any] = found
        return template

    @cached_property
    def clusters(self) -> list[str]:
        """The clusters that the policies name."""
        return sorted({name for policy in self.policies for name in policy["spec"]["targetClusters"]["clusterNames"]})


OWN = Told(documents.own("cluster-policies", "nodes", "machine-sets", "tolerations"))
GIVEN = documents.given("000", "001", "002", "004")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of a snippet is one for each snippet of the pages of its class."""
    if "example" in metafunc.fixturenames:
        found = list(enumerate(metafunc.cls.told.examples))
        metafunc.parametrize(("number", "example"), found, ids=[f"{one.document}:{one.line}" for _, one in found])


def _cluster(name: str) -> dict[str, Any]:
    return {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}


def _machine_set(namespace: str, template: dict[str, Any]) -> dict[str, Any]:
    labels = {"set": namespace}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, **template},
    }
    metadata = {"name": SET, "namespace": namespace}
    return {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": metadata, "spec": spec}


def _fill(text: str) -> str:
    """Put something in the places that a page leaves to its reader."""
    for place, value in (
        ("<node_name>", "node1"),
        ("<node-name>", "node1"),
        ("<machineset>", SET),
        ("<key>=<value>:<effect>", "key1=value1:NoExecute"),
        ("<key>-", "key1-"),
    ):
        text = text.replace(place, value)
    return text


def _words(command: documents.Command) -> list[str]:
    """The command without `kubectl` or `oc`: what comes behind `moorage`."""
    return shlex.split(_fill(command.text))[1:]


def _tainting(command: documents.Command) -> tuple[str, str] | None:
    """The node and the spec of `taint nodes NODE SPEC` or `adm taint nodes NODE SPEC`; None of another command."""
    words = _words(command)
    if "taint" not in words[:2]:
        return None
    node, spec = words[words.index("taint") + 2 :][:2]
    return node, spec


def _object(example: documents.Example, number: int, machines: str) -> dict[str, Any]:
    """A snippet as a whole object: itself, or a pod, node or machine set of which it is a part."""
    value: dict[str, Any] = yaml.safe_load(_fill(example.text))
    if "kind" in value:
        value["metadata"].setdefault("name", f"shown-{number}")
        return value
    spec = value.get("spec", value)
    metadata: dict[str, Any] = {"name": f"shown-{number}"}
    if "taints" in spec:
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
    if "template" in spec:
        whole = _machine_set(machines, spec["template"])
        return {**whole, "metadata": {**whole["metadata"], **metadata}}
    spec = {"containers": [{"name": "c", "image": "c"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _covers(shown: Any, wanted: Any) -> bool:
    """Whether what is shown says all that was wanted; an empty text says nothing."""
    if isinstance(wanted, dict):
        said = {name: value for name, value in wanted.items() if value not in ("", None)}
        return isinstance(shown, dict) and all(_covers(shown.get(name), value) for name, value in said.items())
    if isinstance(wanted, list):
        return isinstance(shown, list) and all(any(_covers(one, item) for one in shown) for item in wanted)
    return bool(shown == wanted)


async def _has(live: Live, node: str, spec: str) -> bool:
    """Whether a node has the taint that a command adds or removes."""
    taints = (await live.here("get", "node", node, "-o", "json")).json["spec"].get("taints", [])
    body, _, effect = spec.rstrip("-").partition(":")
    key, _, value = body.partition("=")
    return any(
        one["key"] == key and effect in {"", one["effect"]} and (not value or one.get("value") == value)
        for one in taints
    )


async def _nodes(live: Live, namespace: str) -> dict[str, list[dict[str, Any]]]:
    """The nodes of the set of a namespace, with their taints."""
    uid = (await live.here("get", "machineset", SET, "-n", namespace, "-o", "json")).json["metadata"]["uid"]
    listed = (await live.here("get", "nodes", "-o", "json")).json["items"]
    return {
        one["metadata"]["name"]: one["spec"].get("taints", [])
        for one in listed
        if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", []))
    }


async def _settled(live: Live, namespace: str, count: int) -> dict[str, list[dict[str, Any]]]:
    """The nodes of a set, once there are so many."""
    found: dict[str, list[dict[str, Any]]] = {}

    async def there() -> bool:
        nonlocal found
        found = await _nodes(live, namespace)
        return len(found) == count

    await until(there)
    return found


async def _edit(live: Live, folder: Path, words: list[str], change: dict[str, Any]) -> Done:
    """Run an edit command with an editor that makes this change."""
    (folder / "editor.py").write_text(EDITOR)
    (folder / "change.yaml").write_text(yaml.safe_dump(change))
    live.env["KUBE_EDITOR"] = f"{sys.executable} {folder / 'editor.py'} {folder / 'change.yaml'}"
    return await live.here(*words)


def _carries(taints: list[dict[str, Any]], wanted: dict[str, Any]) -> bool:
    return any(_covers(one, wanted) for one in taints)


async def _taints(live: Live, cluster: str) -> set[tuple[str, str]]:
    spec = (await live.here("get", "cluster", cluster, "-o", "json")).json["spec"]
    return {(one["key"], one["effect"]) for one in spec.get("taints", [])}


async def _until_tainted(live: Live, cluster: str, taint: tuple[str, str], *, there: bool) -> set[tuple[str, str]]:
    """The taints of a cluster, once one of them is there, or is gone."""
    found: set[tuple[str, str]] = set()

    async def so() -> bool:
        nonlocal found
        found = await _taints(live, cluster)
        return (taint in found) is there

    await until(so)
    return found


class Documented:
    """What holds of pages; a class for each folder of them says which."""

    name: ClassVar[str]
    told: ClassVar[Told]
    counts: ClassVar[tuple[int, int, int, int]]
    """Snippets, commands, flags and rows of the table: so that none is overlooked."""

    @pytest_asyncio.fixture(scope="class", loop_scope="session")
    @classmethod
    async def live(cls, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
        """A Moorage that runs with the flags of the pages, and what their commands are about."""
        folder = tmp_path_factory.mktemp(cls.name)
        given = {
            flag.strip("-").partition("=")[0].replace("-", "_"): flag.partition("=")[2] or "true"
            for flag in cls.told.flags
        }
        async with running(broker.bootstrap, f"{RUN}-{cls.name}", folder, **given) as found:
            names = sorted({named[0] for one in cls.told.commands if (named := _tainting(one))})
            documents = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
            documents += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cls.told.machines}}]
            documents += [_cluster(name) for name in (*cls.told.clusters, "another")]
            # The set without a namespace is for the command that names none.
            documents += [_machine_set("default", {}), _machine_set(cls.told.machines, cls.told.template)]
            await found.here("apply", "-f", "-", text=yaml.dump_all(documents))
            yield found

    def test_the_pages_say_as_much_as_they_did(self) -> None:
        told = self.told
        assert self.counts == (len(told.examples), len(told.commands), len(told.flags), len(told.system_taints))

    async def test_the_flags_are_taken_as_written(self, tmp_path: Path) -> None:
        alone = {
            "MOORAGE_STATE_DIR": str(tmp_path),
            "MOORAGE_BOOTSTRAP_SERVERS": "127.0.0.1:9",
            "MOORAGE_GATEWAY_PORT": "0",
        }
        # Both get as far as looking for Kafka; a flag that is not known ends with 2 before.
        done = await moorage("up", *self.told.flags, env=alone)
        assert (done.code, "does not answer" in done.err) == (1, True), done.err
        env = {**alone, "MOORAGE_BOOTSTRAP_SERVERS": ""}
        done = await moorage("run", *self.told.flags, "timer", env=env)
        assert (done.code, "the address of Kafka is not known" in done.err) == (1, True), done.err

    async def test_a_snippet_applies_as_written(self, live: Live, number: int, example: documents.Example) -> None:
        wanted = _object(example, number, self.told.machines)
        name, namespace = wanted["metadata"]["name"], wanted["metadata"].get("namespace", "default")
        await live.namespaces(namespace)
        done = await live.here("apply", "-f", "-", text=yaml.safe_dump(wanted))
        called, word = done.out.split()
        assert called.partition(".")[0].partition("/")[0] == wanted["kind"].lower()
        assert called.endswith(f"/{name}")
        assert word in {"created", "configured", "unchanged"}
        shown = (await live.here("get", wanted["kind"], name, "-n", namespace, "-o", "json")).json
        assert _covers(shown["spec"], wanted["spec"]), (wanted["spec"], shown["spec"])

    async def test_the_commands_run_as_written_in_their_order(self, live: Live) -> None:
        for command in self.told.commands:
            named = _tainting(command)
            if named is None:
                continue  # the machine sets' are below, with an editor
            node, spec = named
            removes = spec.endswith("-")
            if removes and not await _has(live, node, spec):
                # The page removes what an earlier reader put there.
                await live.here("taint", "nodes", node, f"{spec.rstrip('-')}=value1:NoExecute")
            done = await live.here(*_words(command), *([] if removes else ["--overwrite"]))
            assert done.out.startswith(f"node/{node} "), (command, done.out)
            if command.output:
                assert done.out == f"{command.output}\n"
            assert await _has(live, node, spec) is not removes, command

    async def test_machine_sets_are_edited_and_scaled_as_written(self, live: Live, tmp_path: Path) -> None:
        (taint,) = self.told.template["spec"]["taints"]
        commands = [words for words in map(_words, self.told.commands) if words[0] in {"edit", "scale"}]
        edit_here, to_zero, to_some, edit_there = commands
        assert [words[0] for words in commands] == ["edit", "scale", "scale", "edit"]
        called = f"machineset.machine.openshift.io/{SET}"

        # The template of a set that has a node already: that node stays as it is, later ones are tainted.
        before = await _settled(live, "default", 1)
        done = await _edit(live, tmp_path, edit_here, {"spec": {"template": self.told.template}})
        assert done.out == f"{called} edited\n"
        await live.here("scale", "--replicas=2", "machineset", SET)
        after = await _settled(live, "default", 2)
        (old,) = before
        assert not _carries(after[old], taint)
        assert all(_carries(taints, taint) for name, taints in after.items() if name != old)

        # Down to none and up again: all of them are new.
        assert (await live.here(*to_zero)).out == f"{called} scaled\n"
        await _settled(live, self.told.machines, 0)
        assert (await live.here(*to_some)).out == f"{called} scaled\n"
        count = next(int(word.partition("=")[2]) for word in to_some if word.startswith("--replicas="))
        found = await _settled(live, self.told.machines, count)
        assert all(_carries(taints, taint) for taints in found.values())
        done = await _edit(live, tmp_path, edit_there, {"spec": {"replicas": count + 1}})
        assert done.out == f"{called} edited\n"
        await _settled(live, self.told.machines, count + 1)

    async def test_the_system_keeps_the_taints_of_the_table(self, live: Live) -> None:
        await live.here("apply", "-f", "-", text=yaml.safe_dump(_cluster("tabled")))
        for row in self.told.system_taints:
            for added in row.added:
                for removed in row.removed:
                    await live.here("report", "cluster/tabled", f"Ready={added}")
                    found = await _until_tainted(live, "tabled", (row.key, "NoSchedule"), there=True)
                    assert (row.key, "NoExecute") not in found
                    await live.here("report", "cluster/tabled", f"Ready={removed}")
                    await _until_tainted(live, "tabled", (row.key, "NoSchedule"), there=False)

    async def test_the_policy_adds_and_removes_by_its_conditions(self, live: Live) -> None:
        first, both = self.told.policies[:2]
        one, two = self.told.clusters
        (condition,) = first["spec"]["addOnConditions"]
        (taint,) = first["spec"]["taints"]
        identity = (taint["key"], taint["effect"])
        await live.here("apply", "-f", "-", text=yaml.safe_dump(first))
        for cluster in ("another", one):
            await live.here("report", f"cluster/{cluster}", f"{condition['conditionType']}=False")
        await _until_tainted(live, one, identity, there=True)
        assert identity not in await _taints(live, "another")  # the policy does not name it
        await live.here("report", f"cluster/{one}", f"{condition['conditionType']}=True")
        await _until_tainted(live, one, identity, there=False)

        # Conditions are ANDed: one of two adds nothing.
        await live.here("apply", "-f", "-", text=yaml.safe_dump(both))
        ready, other = (part["conditionType"] for part in both["spec"]["addOnConditions"])
        await live.here("report", f"cluster/{two}", f"{ready}=False")
        found = await _until_tainted(live, two, ("cluster.karmada.io/not-ready", "NoSchedule"), there=True)
        assert identity not in found
        await live.here("report", f"cluster/{two}", f"{other}=False")
        await _until_tainted(live, two, identity, there=True)


class TestOwn(Documented):
    """Our own pages."""

    name = "pages"
    told = OWN
    counts = (31, 22, 5, 2)


if GIVEN is not None:
    _TOLD = Told(GIVEN)

    class TestGiven(Documented):
        """The documents that `MOORAGE_DOCUMENTS` names the folder of."""

        name = "documents"
        told = _TOLD
        counts = (35, 22, 5, 2)
