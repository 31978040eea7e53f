"""`moorage explain` on a broker: by the query worker as from the topics, with older records, and nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.e2e.test_cli import node
from tests.support.brokers import Broker
from tests.support.live import Live, running
from tests.support.waiting import until

from moorage.cli.api.topics import BEGINNING, TopicReader
from moorage.cli.local.stack import free_ports
from moorage_schemas.topics import OBJECTS, TOPICS, ZONES

pytestmark = pytest.mark.kafka


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    async with running(broker.bootstrap, f"{RUN}-explain", tmp_path_factory.mktemp("explain")) as found:
        yield found


async def both(live: Live, *words: str) -> Any:
    """What is told, by the query worker and from the topics: the same, but for the moment whose state it is.

    Between the two something may have happened, so a difference counts when it stays.
    """
    found: list[Any] = []

    async def agree() -> bool:
        found[:] = [(await live.here("explain", *words, "-o", "json", *how)).json for how in ([], ["--from-topics"])]
        return bool(found[0] | {"at": ""} == found[1] | {"at": ""})

    await until(agree)
    return found[0]


WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "c", "image": "c:1"}],
                "tolerations": [{"key": "slow", "operator": "Exists", "tolerationSeconds": 600}],
            },
        },
    },
}


async def test_why_a_replica_is_where_it_is(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump_all([node("e1"), node("e2"), WEB]))

    async def pod() -> dict[str, str]:
        items = (await live.here("get", "pods", "-l", "app=web", "-o", "json")).json["items"]
        return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in items}

    async def placed() -> bool:
        return all((await pod()).values() or [""])

    await until(placed)
    ((first, where),) = (await pod()).items()
    other = {"e1": "e2", "e2": "e1"}[where]

    done = await live.moorage("explain", "pod", f"default/{first}", "-o", "json")
    assert done.err == "", "a query worker has answered"
    assert done.json["agrees"] is True
    told = await both(live, "pod", first, "--all")
    assert [one["name"] for one in told["targets"] if one["here"]] == [where]
    assert [one["topic"] for one in told["chains"][0]["steps"]] == ["resources", "placements"]

    await live.here("taint", "node", where, "slow=1:NoExecute")
    await live.here("taint", "node", other, "gone=1:NoSchedule")

    async def scheduled() -> bool:
        # The time follows from the taint at once. The chain has the taint when the eviction is decided.
        text = (await live.here("explain", "pod", first)).out
        return f"has to leave node {where}" in text and f"node/{where} has slow=1:NoExecute (explicit)" in text

    await until(scheduled, message="the taint and what follows from it are not explained")
    assert "nothing tolerates gone=1:NoSchedule" in (await live.here("explain", "pod", first, "--node", other)).out

    await live.here("taint", "node", other, "gone:NoSchedule-")
    await live.here("taint", "node", where, "fast=1:NoExecute")

    async def moved() -> bool:
        found = await pod()
        return list(found.values()) == [other] and first not in found

    await until(moved)
    (second,) = await pod()
    await until_completed(live, first)
    await until(lambda: counted(live), message="the governor, for which nothing here has waited, counts no node")
    before = await ends(live)
    told = await both(live, "pod", second, "--all")
    (behind,) = [one for one in told["chains"] if one["about"] == "the decision"]
    assert behind["whole"], "older records of the chain were read from the topics"
    assert [one["topic"] for one in behind["steps"]] == ["resources", "taints", "evictions", "placements"]
    assert behind["steps"][1]["key"] == f"Node/{where}"
    assert told["decision"]["replaces"] == f"Pod/default/{first}"
    await refused(live, second)
    assert "Pods (1)" in (await live.here("explain", "deployment", "web")).out
    assert await ends(live) == before, "explaining writes nothing"

    for name in (where, other):
        await live.here("report", f"node/{name}", "Ready=True")
    await live.here("report", f"node/{other}", "Ready=False")

    async def waits() -> bool:
        found = (await live.here("explain", "pod", second, "-o", "json")).json
        return any("not-ready" in one["what"] and one["when"] for one in found["until"])

    await until(waits)
    await explained_nodes(live, other, where, second)
    told = await both(live, "pod", second, "--node", other)
    assert [one["name"] for one in told["targets"]] == [other]
    told = await both(live, "pod", second)
    (behind,) = [one for one in told["chains"] if one["about"] == f"the eviction from node {other}"]
    assert behind["whole"]
    way = [one["topic"] for one in behind["steps"]]
    assert (way[:2], way[-2:]) == (["condition-reports", "conditions"], ["taints", "evictions"])


async def explained_nodes(live: Live, failed: str, tainted: str, pod: str) -> None:
    """A node that is not ready, from which a pod has to leave, and one that somebody has tainted."""
    told = await both(live, "node", failed)
    assert told["status"] == "NotReady"
    (condition,) = told["conditions"]
    behind = next(one for one in told["chains"] if condition["event"] in {step.get("id") for step in one["steps"]})
    assert [one["topic"] for one in behind["steps"]][:2] == ["condition-reports", "conditions"]
    assert [one["workload"]["name"] for one in told["evictions"] if one["state"] == "Scheduled"] == [pod]
    assert {one["key"] for one in told["taints"]} == {"node.kubernetes.io/not-ready"}
    assert (await both(live, f"node/{tainted}"))["taints"][0]["origins"][0]["origin"] == "explicit"


async def refused(live: Live, pod: str) -> None:
    """What cannot be told is refused in the same words by whoever is asked."""
    done = await live.moorage("explain", "pod", "gone", code=1)
    assert done.err == 'Error from server (NotFound): pods "gone" not found\n'
    done = await live.here("explain", "pod", "gone", "--from-topics", code=1)
    assert done.err == 'Error from server (NotFound): pods "gone" not found\n'
    done = await live.here("explain", "pod", pod, "--cluster", "c", code=2)
    assert done.err == f"error: --cluster: no policy places pod {pod} on clusters\n"


async def until_completed(live: Live, pod: str) -> None:
    """Return when the eviction of a pod is over."""

    async def over() -> bool:
        items = (await live.here("get", "evictions", "-o", "json")).json["items"]
        return {one["status"]["state"] for one in items if one["status"]["workload"]["name"] == pod} == {"Completed"}

    await until(over, message=f"the eviction of {pod} is not over")


async def counted(live: Live) -> bool:
    """Whether the governor has counted the nodes of a zone."""
    return any(topic == ZONES.short for topic, _ in await ends(live))


async def ends(live: Live) -> dict[tuple[str, int], int]:
    """The last offset of each partition in which there is something, without what the gateway shows of the others."""
    topics = [topic for topic in TOPICS if topic is not OBJECTS]  # conditions and Events follow a moment later
    async with TopicReader(live.bootstrap, live.prefix, topics, BEGINNING) as reader:
        found: dict[tuple[str, int], int] = {}
        for one in await reader.to_end():
            place = (one.topic.short, one.partition)
            found[place] = max(found.get(place, 0), one.offset)
    return found


def managed(kind: str, name: str, namespace: str = "", version: str = "v1beta2", **parts: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"cluster.open-cluster-management.io/{version}", "kind": kind, "metadata": metadata, **parts}


async def test_why_a_placement_has_its_clusters(live: Live) -> None:
    documents = [
        managed("ManagedCluster", "mc1", version="v1", spec={"hubAcceptsClient": True}),
        managed("ManagedCluster", "mc2", version="v1", spec={"hubAcceptsClient": True}),
        managed("ManagedClusterSetBinding", "global", "default", spec={"clusterSet": "global"}),
        managed("Placement", "top", "default", "v1beta1", spec={"numberOfClusters": 1}),
    ]
    await live.here("apply", "-f", "-", text=yaml.dump_all(documents))

    async def refused() -> bool:
        told = (await live.here("explain", "placement", "top", "-o", "json")).json
        return bool(told["decision"] and sum(one["count"] for one in told["decision"]["filters"]) == 2)

    await until(refused)
    await live.here("report", "managedcluster/mc2", "ManagedClusterConditionAvailable=True")

    async def selected() -> bool:
        return bool((await live.here("explain", "placement", "top", "-o", "json")).json["here"] == ["mc2"])

    await until(selected)
    told = await both(live, "placement", "default/top", "--cluster", "mc1")
    assert told["agrees"] is True
    (only,) = told["targets"]
    assert "unreachable:NoSelect" in only["outcome"]
    (behind,) = [one for one in told["chains"] if one["about"] == "the decision"]
    assert behind["whole"]
    assert [one["topic"] for one in behind["steps"]] == ["condition-reports", "conditions", "taints", "placements"]


async def test_why_a_resource_is_on_its_clusters(live: Live) -> None:
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "spread"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "far"}], "placement": {}},
    }
    cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "spec": {"syncMode": "Push"}}
    clusters = [cluster | {"metadata": {"name": name}} for name in ("k1", "k2")]
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far"}, "data": {}}
    await live.here("apply", "-f", "-", text=yaml.dump_all([*clusters, policy, config]))

    async def placed() -> bool:
        listed = (await live.here("get", "resourcebindings", "-o", "json")).json["items"]
        return any(one["metadata"]["name"] == "far-configmap" for one in listed)

    await until(placed)
    await live.here("report", "cluster/k1", "Ready=True")
    await live.here("report", "cluster/k2", "Ready=False")

    async def tainted() -> bool:
        told = (await live.here("explain", "configmap", "far", "--cluster", "k2", "-o", "json")).json
        return bool(told["targets"][0]["taints"])

    await until(tainted)
    for words in (("configmap", "far"), ("rb", "far-configmap", "--all"), ("configmap/far", "--cluster", "k2")):
        told = await both(live, *words)
        assert told["workload"] == "ResourceBinding/default/far-configmap"
        assert all(chain["whole"] for chain in told["chains"])


async def test_without_a_gateway_the_topics_are_read_and_that_is_said(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump(node("lone")))
    await live.here("apply", "-f", "-", text=yaml.dump(WEB | {"metadata": {"name": "alone"}}))
    with_gateway = await live.here("explain", "deployment", "alone", "-o", "json")
    (port,) = free_ports(1)
    done = await live.moorage("--server", f"http://127.0.0.1:{port}", "explain", "deployment", "alone", "-o", "json")
    assert done.json["owner"] == with_gateway.json["owner"] == "Deployment/default/alone"
    assert done.err.startswith(f"the gateway at http://127.0.0.1:{port} does not answer (")
    assert done.err.endswith("; reading the topics instead, which takes longer\n")
