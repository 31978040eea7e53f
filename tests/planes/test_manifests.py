"""A real API server takes the manifests of ops/kubernetes, and its admission finds nothing to warn of in their pods."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from tests.component.gateway.double import Fixture
from tests.component.gateway.test_authentication import who
from tests.kubectl import programs
from tests.manifests.test_base import FIELDS
from tests.planes.plane import started
from tests.support import manifests
from tests.support.commands import Done, program
from tests.support.identities import written
from tests.support.manifests import Manifest

from moorage.runtime.settings.process_settings import Settings

DEFINITIONS: Final = Path(__file__).parent / "definitions"
FORMS: Final = [*manifests.KUSTOMIZATIONS, *manifests.CHARTS]
REMOTE: Final = [folder for folders in manifests.REMOTE.values() for folder in folders]


class Server:
    """An API server with the namespace and the kinds of others that the manifests use."""

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        self.kubeconfig = kubeconfig
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
        # Karmada has made these.
        for name in ("karmada-system", "karmada-cluster"):
            await server.must("create", "namespace", name)
        yield server


@pytest.mark.parametrize("form", [*FORMS, *REMOTE])
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


async def test_helm_says_what_bridges_still_need(server: Server) -> None:
    # In the namespace of the other tests are service accounts that are not helm's.
    await server.must("create", "namespace", "elsewhere")
    words = (str(programs.helm()), "install", "moorage", str(manifests.CHART), "--namespace", "elsewhere")
    access = ("--dry-run=server", "--kubeconfig", str(server.kubeconfig), manifests.bridges(*manifests.BRIDGES))
    done = await program(*words, *access, seconds=120)
    assert done.code == 0, done.err
    notes = done.out.partition("NOTES:")[2]
    said = [line.strip() for line in notes.splitlines() if line.strip().startswith("kubectl")]
    folder = "ops/kubernetes/bridge"
    acts = [f"-f {folder}/karmada/acts/{one}.yaml" for one in ("election", "taints", "bindings")]
    assert said[-2:] == [
        f"kubectl --kubeconfig karmada-admin.kubeconfig apply -k {folder}/karmada",
        f"kubectl --kubeconfig karmada-admin.kubeconfig apply {' '.join(acts)}",
    ]
    assert [line.split()[2] for line in said] == [
        f"{name}-admin.kubeconfig" for name in ("east", "east", "west", "hub", "hub", "karmada", "karmada")
    ]
    secrets = "the Secret moorage-bridge-token, and the Secret moorage-bridge-east-kubeconfig."
    assert f"The bridge east needs {secrets}" in notes
    named = {word for line in said for word in line.split() if word.startswith("ops/")}
    assert all((manifests.ROOT / one).exists() for one in named)


async def test_the_gateway_accepts_the_tokens_that_the_cluster_issues_for_it(server: Server, tmp_path: Path) -> None:
    found = manifests.objects(manifests.templated(*manifests.WHOLE, manifests.CLUSTER_TOKENS))
    said = manifests.environment(found, found["StatefulSet/moorage-gateway"], FIELDS)
    settings = {key.removeprefix("MOORAGE_").lower(): value for key, value in said.items() if "_OIDC_" in key}
    keys = await server.kubectl("get", "--raw", "/openid/v1/jwks")
    # The kubelet asks for the same with the audience of the projected volume.
    account = "moorage-bridge-home"
    await server.must("apply", "-f", "-", text=_list([_account(account)]))
    asked = ("--namespace", manifests.NAMESPACE, "create", "token", account)
    token = await server.kubectl(*asked, "--audience", settings["oidc_client_id"])
    other = await server.kubectl(*asked)
    discovered = await server.kubectl("get", "--raw", "/.well-known/openid-configuration")
    places = {"oidc_jwks": written(tmp_path, "jwks.json", keys.out), "oidc_issuer_url": discovered.json["issuer"]}
    known: dict[str, Any] = {**settings, **places}
    gateway = Fixture(settings=Settings(**known))
    user = f"cluster:system:serviceaccount:{manifests.NAMESPACE}:{account}"
    code, said_of_it = await who(gateway, token.out.strip())
    assert (code, f'User "{user}" cannot create' in said_of_it) == (403, True), "it is known, and has no role yet"
    assert await who(gateway, other.out.strip()) == (401, "Unauthorized"), "it is for the API server"
    page = (manifests.ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    assert f"--user={user}" in page


async def test_it_would_refuse_what_is_not_so(server: Server) -> None:
    found = manifests.objects(manifests.made("base"))
    governor = found["Deployment/moorage-governor"]
    await server.must("apply", "-f", "-", text=_list([_account("moorage-governor")]))
    rooted = _pod(governor)
    rooted["spec"]["securityContext"]["runAsNonRoot"] = False
    rooted["spec"]["securityContext"]["runAsUser"] = 0
    done = await server.takes(_list([rooted]))
    assert done.code != 0
    assert 'violates PodSecurity "restricted:latest": runAsNonRoot != true' in done.err
    governor["spec"]["template"]["spec"]["terminationGracePeriod"] = 3
    done = await server.takes(_list([governor]))
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
