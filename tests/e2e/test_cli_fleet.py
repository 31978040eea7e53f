"""Clusters, machines, zones, budgets and pauses on the command line, against the real thing and our own examples."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.forks import ROOT
from tests.support.live import Live, running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

EXAMPLES = ("-f", str(ROOT / "examples" / "karmada"), "-f", str(ROOT / "examples" / "karmada" / "no-execute"))
SHOP = ("-n", "storefront")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """A Moorage with every switch on, and the examples applied."""
    given = {
        "feature_gates": "Failover=true",
        "allow_no_execute_taint_policy": True,
        "enable_no_execute_taint_eviction": True,
        "node_monitor_period": 0.5,
    }
    async with running(broker.bootstrap, f"{RUN}-fleet", tmp_path_factory.mktemp("fleet"), **given) as found:
        done = await found.here("apply", *EXAMPLES)
        assert {line.split()[-1] for line in done.out.splitlines()} == {"created"}
        assert done.err == ""
        yield found


async def rows(live: Live, *words: str) -> dict[str, list[str]]:
    """What `get` shows, by name."""
    lines = (await live.here("get", *words, "--no-headers")).out.splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


async def test_applying_the_examples_again_changes_nothing(live: Live) -> None:
    done = await live.here("apply", *EXAMPLES)
    assert {line.split()[-1] for line in done.out.splitlines()} == {"unchanged"}


async def test_every_example_document_is_applied(live: Live) -> None:
    files = sorted((ROOT / "examples" / "karmada").rglob("*.yaml"))
    for file in files:
        for document in yaml.safe_load_all(file.read_text("utf-8")):
            metadata = document["metadata"]
            namespace = metadata.get("namespace", "default")
            found = (await live.here("get", document["kind"], metadata["name"], "-n", namespace, "-o", "json")).json
            assert found["kind"] == document["kind"]
    assert {file.name for file in files} >= {"10-clusters.yaml", "drain.yaml"}


async def test_replicas_are_divided_over_clusters(live: Live) -> None:
    async def placed() -> bool:
        found = await rows(live, "rb", *SHOP)
        return found.get("checkout-deployment", [""])[0] == "True" and found.get("prices-configmap", [""])[0] == "True"

    await until(placed)
    spec = (await live.here("get", "rb", "checkout-deployment", *SHOP, "-o", "json")).json["spec"]
    assert {one["name"]: one["replicas"] for one in spec["clusters"]} == {"paris": 4, "oslo": 2, "lima": 2}
    found = await rows(live, "rb", *SHOP)
    assert sorted(found["prices-configmap"][1].split(",")) == ["lab", "lima", "oslo", "paris"]
    told = (await live.here("describe", "rb", "checkout-deployment", *SHOP)).out
    assert "Resource:       deployment/checkout" in told
    told = (await live.here("describe", "cluster", "paris")).out
    assert "checkout-deployment" in told
    assert (await rows(live, "clusters"))["lab"][:3] == ["Pull", "Unreported", "experiments:NoSchedule"]


async def test_machines_are_made_and_scaled(live: Live) -> None:
    async def there(count: int) -> bool:
        nodes = (await live.here("get", "nodes", "-l", "accelerator=yes", "-o", "json")).json["items"]
        taints = [[(one["key"], one["effect"]) for one in node["spec"].get("taints", [])] for node in nodes]
        return len(nodes) == count and all(("accelerator", "NoSchedule") in one for one in taints)

    await until(lambda: there(2))
    assert (await rows(live, "machinesets", "-n", "machines"))["render"][:2] == ["2", "2"]
    for words in (("machineset", "render", "--replicas=3"), ("--replicas=2", "ms/render")):
        done = await live.here("scale", *words, "-n", "machines")
        assert done.out == "machineset.machine.openshift.io/render scaled\n"
        count = 3 if "--replicas=3" in words else 2
        await until(lambda count=count: there(count))  # type: ignore[misc]  # mypy does not see the default's type
    told = (await live.here("describe", "machineset", "render", "-n", "machines")).out
    assert "New nodes get:  accelerator=render:NoSchedule" in told
    assert "Nodes of this set (2):" in told
    await live.here("scale", "deploy/gallery", "--replicas", "2", *SHOP)
    assert (await live.here("get", "deploy", "gallery", *SHOP, "-o", "json")).json["spec"]["replicas"] == 2


async def test_cordon_of_a_cluster(live: Live) -> None:
    assert (await live.here("cordon", "cluster/lab")).out == "cluster/lab cordoned\n"

    async def marked() -> bool:
        return "cluster.karmada.io/unschedulable:NoSchedule" in (await live.here("get", "clusters", "-o", "wide")).out

    await until(marked)
    assert (await live.here("uncordon", "cluster/lab")).out == "cluster/lab uncordoned\n"


async def test_a_policy_drains_a_cluster(live: Live) -> None:
    """The policy adds the taint by a condition, and what does not tolerate it for ever has a deadline."""
    await live.here("report", "cluster/lima", "Draining=True")

    async def tainted() -> bool:
        return "maintenance:NoExecute" in (await rows(live, "clusters"))["lima"][2]

    await until(tainted)

    async def scheduled() -> bool:
        lines = (await live.here("get", "evictions", *SHOP)).out.splitlines()
        return any("cluster/lima" in line and " Scheduled " in line for line in lines)

    await until(scheduled)
    await live.here("report", "cluster/lima", "Draining=False")

    async def clean() -> bool:
        return (await rows(live, "clusters"))["lima"][2] == "<none>"

    await until(clean)


async def test_a_pause_holds_and_resume_lets_go(live: Live) -> None:
    scope = ("--scope", "namespace=storefront")
    done = await live.here("pause", "evictions", *scope, "--reason", "sale")
    assert done.out.startswith(
        "evictions of namespace storefront paused (evictionpause.moorage.io/namespaces-storefront-"
    )
    pause = done.out.partition("evictionpause.moorage.io/")[2].rstrip(")\n")
    assert "already paused" in (await live.here("pause", "evictions", *scope)).out
    await live.here("taint", "cluster", "oslo", "broken=yes:NoExecute")

    async def state(wanted: str) -> bool:
        lines = (await live.here("get", "evictions", *SHOP)).out.splitlines()
        mine = [line for line in lines if "resourcebinding/checkout-deployment" in line and "cluster/oslo" in line]
        return any(f" {wanted} " in line for line in mine)

    async def held() -> bool:
        return await state("Held") and f"EvictionPause/{pause}" in (await live.here("get", "evictions", *SHOP)).out

    await until(held)
    told = (await live.here("describe", "rb", "checkout-deployment", *SHOP)).out
    assert f"EvictionPause/{pause}" in told
    assert (await rows(live, "evictionpauses"))[pause][:3] == ["namespaces=storefront", "1", "sale"]
    assert (await live.here("resume", "evictions", *scope)).out.startswith("evictions of namespace storefront resumed")

    async def leaving() -> bool:
        clusters, away = (await rows(live, "rb", *SHOP))["checkout-deployment"][1:3]
        return "oslo" not in clusters and away == "oslo"

    await until(leaving)
    assert "Gracefully" in (await live.here("describe", "rb", "checkout-deployment", *SHOP)).out
    # The old place stays until what replaces it is healthy.
    for cluster in ("paris", "lima"):
        binding = "resourcebinding/storefront/checkout-deployment"
        await live.here("report", binding, "--on", f"cluster/{cluster}", "Healthy=True")

    async def gone() -> bool:
        return (await rows(live, "rb", *SHOP))["checkout-deployment"][2] == "<none>"

    await until(gone)
    await live.here("taint", "cluster", "oslo", "broken-")


async def test_zones_are_seen_and_what_waits(live: Live) -> None:
    names = [f"z{number}" for number in range(1, 5)]
    labels = {"topology.kubernetes.io/region": "test", "topology.kubernetes.io/zone": "one"}
    nodes: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}} for name in names
    ]
    await live.here("apply", "-f", "-", text=yaml.dump_all(nodes))
    for name in names[:3]:
        await live.here("report", f"node/{name}", "Ready=False")

    async def stopped() -> bool:
        found = (await rows(live, "zones")).get("test/one", [])
        return found[:3] == ["PartialDisruption", "4", "3"]

    await until(stopped)
    told = (await live.here("describe", "zone", "test/one")).out
    assert "State:          PartialDisruption" in told
    waiting = [name for name in names[:3] if f"Node/{name}" in told]
    assert waiting  # the first may have been let through before the zone was seen to be disrupted
    told = (await live.here("describe", "node", waiting[-1])).out
    assert "Zone:           test/one (PartialDisruption)" in told
    assert "Held taints:" in told
    assert "node.kubernetes.io/not-ready:NoExecute" in told
    for name in names[:3]:
        await live.here("report", f"node/{name}", "Ready=True")

    async def normal() -> bool:
        return (await rows(live, "zones"))["test/one"][0] == "Normal"

    await until(normal)
    lines = (await live.moorage("watch", "zones", "--since", "10m", "--timeout", "2s")).out
    assert "zone test/one PartialDisruption: 3 of 4 not ready" in lines


async def test_budgets_are_counted_for_people(live: Live) -> None:
    async def counted() -> bool:
        return (await rows(live, "pdb", *SHOP))["gallery"][:2] == ["2", "N/A"]

    await until(counted)
    assert set(await rows(live, "evictionbudgets")) == {"one-zone-at-a-time", "storefront-slowly"}
    told = (await live.here("describe", "pdb", "gallery", *SHOP)).out
    assert "Min available:  2" in told
    assert "Selector:       app=gallery" in told


async def test_an_edit_of_a_live_object(live: Live, tmp_path: Path) -> None:
    script = tmp_path / "editor.sh"
    script.write_text('#!/bin/sh\nsed -i "s/maxInWindow: 10/maxInWindow: 7/" "$1"\n')
    script.chmod(0o755)
    live.env["KUBE_EDITOR"] = str(script)
    words = ("edit", "evictionbudget", "storefront-slowly")
    assert (await live.here(*words)).out == "evictionbudget.moorage.io/storefront-slowly edited\n"
    found = (await live.here("get", "eb", "storefront-slowly", "-o", "json")).json
    assert found["spec"]["maxInWindow"] == 7
    assert (await live.here(*words)).err == "Edit cancelled, no changes made.\n"


async def test_the_whole_fleet_is_paused_and_everything_is_resumed(live: Live) -> None:
    assert (await live.here("pause", "evictions")).out.startswith("evictions of the whole fleet paused")
    assert (await live.here("get", "evictionpause", "all", "-o", "json")).json["spec"] == {"scope": {}}
    done = await live.here("resume", "evictions", "--all")
    assert "evictions of the whole fleet resumed (evictionpause.moorage.io/all)" in done.out
    assert "evictions of target Cluster/lab resumed (evictionpause.moorage.io/lab-is-busy)" in done.out
    assert (await live.here("get", "evictionpauses")).err == "No resources found\n"
