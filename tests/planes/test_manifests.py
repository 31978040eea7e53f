"""A real API server takes the manifests of ops/kubernetes, and its admission finds nothing to warn of in their pods."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from tests.planes.plane import started
from tests.support import manifests
from tests.support.commands import Done, program
from tests.support.manifests import Manifest

DEFINITIONS: Final = Path(__file__).parent / "definitions"
FORMS: Final = [*manifests.KUSTOMIZATIONS, *manifests.CHARTS]


class Server:
    """An API server with the namespace and the kinds of others that the manifests use."""

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        self._words = (manifests.kubectl(), "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache))

    async def kubectl(self, *words: str, text: str | None = None) -> Done:
        """Run kubectl, for which a warning is an error."""
        return await program(*self._words, "--warnings-as-errors", *words, text=text, seconds=120)

    async def must(self, *words: str, text: str | None = None) -> None:
        """Run kubectl, which succeeds."""
        done = await self.kubectl(*words, text=text)
        assert done.code == 0, done.err

    async def takes(self, text: str) -> Done:
        """Whether it would take these objects."""
        return await self.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", text=text)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("plane")
    async with started(folder) as plane:
        await plane.up()
        server = Server(plane.kubeconfig, folder / "kubectl-cache")
        for file in sorted(DEFINITIONS.glob("*.json")):
            await server.must("apply", "--server-side", "-f", str(file))
        await server.must("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        await server.must("apply", "-f", str(manifests.KUBERNETES / "base" / "namespace.yaml"))
        yield server


@pytest.mark.parametrize("form", FORMS)
async def test_the_server_takes_it(server: Server, form: str) -> None:
    text = manifests.made(form)
    done = await server.takes(text)
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == len(manifests.objects(text))


@pytest.mark.parametrize("form", FORMS)
async def test_its_pods_are_admitted_where_the_strictest_standard_is_enforced(server: Server, form: str) -> None:
    found = manifests.objects(manifests.made(form))
    # A pod is refused where its service account is missing. The server is told of those, as they would be.
    accounts = [one for one in found.values() if one["kind"] == "ServiceAccount"]
    await server.must("apply", "-f", "-", text=_list([_account(one["metadata"]["name"]) for one in accounts]))
    pods = [_pod(one) for one in manifests.workloads(found)]
    done = await server.takes(_list(pods))
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == len(pods) > 0


async def test_it_would_refuse_what_is_not_so(server: Server) -> None:
    found = manifests.objects(manifests.made("base"))
    timer = found["Deployment/moorage-timer"]
    await server.must("apply", "-f", "-", text=_list([_account("moorage-timer")]))
    rooted = _pod(timer)
    rooted["spec"]["securityContext"]["runAsNonRoot"] = False
    rooted["spec"]["securityContext"]["runAsUser"] = 0
    done = await server.takes(_list([rooted]))
    assert done.code != 0
    assert 'violates PodSecurity "restricted:latest": runAsNonRoot != true' in done.err
    timer["spec"]["template"]["spec"]["terminationGracePeriod"] = 3
    done = await server.takes(_list([timer]))
    assert done.code != 0
    assert "unknown field" in done.err
    assert "terminationGracePeriod" in done.err
    user = manifests.objects(manifests.made("overlays/production"))["KafkaUser/moorage-timer"]
    user["spec"]["authorisation"] = user["spec"]["authorization"]
    user["spec"]["authorization"]["acls"][0]["operations"] = ["Reed"]
    done = await server.takes(_list([user]))
    assert done.code != 0
    assert "authorisation" in done.err or "Reed" in done.err
    del user["spec"]["authorisation"]
    done = await server.takes(_list([user]))
    assert done.code != 0
    assert 'Unsupported value: "Reed"' in done.err


def _account(name: str) -> Manifest:
    metadata = {"name": name, "namespace": manifests.NAMESPACE}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _pod(workload: Manifest) -> Manifest:
    metadata: dict[str, Any] = {
        "name": workload["metadata"]["name"],
        "namespace": manifests.NAMESPACE,
        "labels": workload["spec"]["template"]["metadata"]["labels"],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": manifests.pod(workload)}


def _list(items: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
