"""Every manifest of the pages applies with kubectl's defaults: client side with validation, server side, and strictly.

The pages are our own, in tests/support/pages. Where `MOORAGE_DOCUMENTS` names a folder of documents, those are held to
the same. What a page leaves to its reader is filled in, and the namespaces that it names are created.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.kubectl import programs
from tests.kubectl.servers import Server, kubeconfig
from tests.support import documents
from tests.support.brokers import Broker
from tests.support.commands import Done, program
from tests.support.live import running

pytestmark = pytest.mark.kafka

_PLACE = re.compile(r"<([a-z][a-z_0-9-]*)>")
_OWN = documents.own("cluster-policies", "nodes", "machine-sets", "tolerations", "managed-clusters")
_GIVEN = documents.given("000", "001", "002", "003", "004")
_MODES = {
    "client-side": ("apply", "-f", "-"),
    "server-side": ("apply", "--server-side", "--force-conflicts", "-f", "-"),
    "strict": ("create", "--validate=strict", "-f", "-"),
}


def _manifests(pages: documents.Pages | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each manifest with the place where it stands."""
    for number, example in enumerate(pages.examples if pages is not None else ()):
        # What a placement decided is no wish: tests/e2e/test_documents_managed.py applies it where it was decided.
        if example.value.get("kind") not in {None, "PlacementDecision"}:
            filled = _PLACE.sub(lambda found: found[1].replace("_", "-"), example.text)
            yield f"{example.document}:{example.line}", _whole(yaml.safe_load(filled), f"shown-{number}")


def _whole(found: dict[str, Any], name: str) -> dict[str, Any]:
    """The manifest with a name, and with the parts that every machine set has."""
    found["metadata"].setdefault("name", name)
    if found["kind"] == "MachineSet":
        labels = {"set": found["metadata"]["name"]}
        found["spec"].setdefault("selector", {"matchLabels": labels})
        found["spec"].setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", labels)
    return found


ALL = [*_manifests(_OWN), *_manifests(_GIVEN)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "manifest" in metafunc.fixturenames:
        cases = [(mode, at, found) for mode in _MODES for at, found in ALL] if programs.found() else []
        names = [f"{mode}-{at}" for mode, at, _ in cases]
        metafunc.parametrize(("mode", "manifest"), [(mode, found) for mode, _, found in cases], ids=names)


@asynccontextmanager
async def _served(broker: Broker, folder: Path) -> AsyncIterator[Server]:
    async with running(broker.bootstrap, f"{RUN}-manifests-", folder, allow_no_execute_taint_policy=True) as live:
        yield kubeconfig(live.server, folder / "kubeconfig")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A Moorage with the namespaces that the manifests name."""
    async with _served(broker, tmp_path_factory.mktemp("manifests")) as found:
        async with found.client() as client:
            for name in sorted({one["metadata"].get("namespace", "default") for _, one in ALL} - {"default"}):
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                (await client.post("/api/v1/namespaces", json=body)).raise_for_status()
        yield found


async def _kubectl(server: Server, *words: str, text: str = "") -> Done:
    (kubectl,) = programs.found()
    cache = str(server.kubeconfig.parent / "cache")
    env = {"KUBECONFIG": str(server.kubeconfig)}
    return await program(*kubectl.command, "--cache-dir", cache, *words, env=env, text=text)


async def test_a_manifest_applies_with_the_defaults_of_kubectl(
    mode: str, manifest: dict[str, Any], server: Server
) -> None:
    text = yaml.safe_dump(manifest)
    try:
        done = await _kubectl(server, *_MODES[mode], text=text)
        assert done.code == 0, f"{done.out}{done.err}"
        if mode != "strict":
            again = await _kubectl(server, *_MODES[mode], text=text)
            assert again.code == 0, f"{again.out}{again.err}"
    finally:
        await _kubectl(server, "delete", "--ignore-not-found", "-f", "-", text=text)


def test_the_pages_have_manifests() -> None:
    assert len([one for _, one in _manifests(_OWN)]) == 30
    assert _GIVEN is None or len([one for _, one in _manifests(_GIVEN)]) == 32
