"""The user's own documents, as written: every snippet and command of the Kubernetes and OpenShift ones.

They are read from beside the project; where they are not, the test fails, unless MOORAGE_WITHOUT_SEEDS says that this
is known.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests import seeds
from tests.brokers import Broker
from tests.conftest import RUN
from tests.kafka.cli_stack import Live, running

pytestmark = pytest.mark.kafka

DOCUMENTS = ("001", "002", "004")
LATER = frozenset({"MachineSet"})
"""Kinds that are not of this version."""


def paths() -> list[Any]:
    found = seeds.documents(*DOCUMENTS)
    if not found:
        told = f"the user's documents are not at {seeds.FOLDER}: nothing of them is tested"
        if "MOORAGE_WITHOUT_SEEDS" not in os.environ:
            raise pytest.UsageError(f"{told}; set MOORAGE_WITHOUT_SEEDS=1 to test without them")
        warnings.warn(told, stacklevel=1)
    return found


PATHS = paths()
EXAMPLES = [one for path in PATHS for one in seeds.examples(path)]
COMMANDS = [(path.name[:3], one) for path in PATHS for one in seeds.commands(path)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    async with running(broker.bootstrap, f"{RUN}-seeds", tmp_path_factory.mktemp("seeds")) as found:
        names = sorted({_node_of(command) for _, command in COMMANDS})
        nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
        await found.moorage("apply", "-f", "-", text=yaml.dump_all(nodes))
        yield found


def _fill(text: str) -> str:
    """Put something in the places that a document leaves to its reader."""
    for place, value in (
        ("<node_name>", "node1"),
        ("<node-name>", "node1"),
        ("<key>=<value>:<effect>", "key1=value1:NoExecute"),
        ("<key>-", "key1-"),
    ):
        text = text.replace(place, value)
    return text


def _node_of(command: str) -> str:
    words = shlex.split(_fill(command))
    return words[words.index("taint") + 2]


def _object(example: seeds.Example, number: int) -> dict[str, Any]:
    """A snippet as a whole object: itself, or a pod or node of which it is a part."""
    value: dict[str, Any] = yaml.safe_load(_fill(example.text))
    if "kind" in value:
        value["metadata"].setdefault("name", f"seed-{number}")
        return value
    spec = value.get("spec", value)
    if "taints" in spec:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"seed-{number}"}, "spec": spec}
    spec = {"containers": [{"name": "c", "image": "c"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"seed-{number}"}, "spec": spec}


def test_the_documents_say_as_much_as_they_did() -> None:
    assert (len(EXAMPLES), len(COMMANDS)) == ((31, 18) if PATHS else (0, 0))


@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=lambda n: f"{EXAMPLES[n].document}:{EXAMPLES[n].line}")
async def test_a_snippet_applies_as_written(live: Live, number: int) -> None:
    example = EXAMPLES[number]
    wanted = _object(example, number)
    if wanted["kind"] in LATER or "template" in wanted.get("spec", {}):
        assert wanted.get("kind") in {*LATER, "Pod"}
        return
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    done = await live.moorage("apply", "-f", "-", text=yaml.safe_dump(wanted))
    assert done.out.split()[0] == f"{kind.lower()}/{name}"
    assert done.out.split()[1] in {"created", "configured", "unchanged"}
    shown = (await live.moorage("get", kind, name, "-o", "json")).json
    for part in ("tolerations", "taints"):
        for one in wanted["spec"].get(part, []):
            plain = {field: value for field, value in one.items() if value != ""}
            assert any(plain.items() <= there.items() for there in shown["spec"][part]), (plain, shown["spec"][part])


async def test_the_commands_run_as_written_in_their_order(live: Live) -> None:
    for document, command in COMMANDS:
        words = shlex.split(_fill(command))
        verb = words[words.index("taint") :]
        node = verb[2]
        removes = verb[3].endswith("-")
        if removes and not await _has(live, node, verb[3]):
            # The document removes what an earlier reader put there.
            await live.moorage("taint", "nodes", node, f"{verb[3].rstrip('-')}=value1:NoExecute")
        done = await live.moorage(*verb, "--overwrite" if not removes else "--output=name")
        assert done.out.startswith(f"node/{node}"), (document, command, done.out)
        assert await _has(live, node, verb[3]) is not removes, (document, command)


async def _has(live: Live, node: str, spec: str) -> bool:
    """Whether a node has the taint that a command adds or removes."""
    taints = (await live.moorage("get", "node", node, "-o", "json")).json["spec"].get("taints", [])
    body, _, effect = spec.rstrip("-").partition(":")
    key, _, value = body.partition("=")
    return any(
        one["key"] == key and effect in {"", one["effect"]} and (not value or one.get("value") == value)
        for one in taints
    )
