"""Our own examples of managed clusters, applied to a Moorage that runs: what the comments in them say is so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.forks import ROOT
from tests.support.live import Live, running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

FOLDER = ROOT / "examples" / "ocm"
HERE = ("-n", "checkout")
GROUP = "cluster.open-cluster-management.io"
AVAILABLE = "ManagedClusterConditionAvailable"
CLUSTERS = ("bergen", "lima", "quito", "spare", "turin")
SELECTED = {
    "everywhere": ["bergen", "spare", "turin"],
    "north-or-large": ["bergen", "spare", "turin"],
    "memory": ["bergen"],
    "disk": ["bergen"],
    "with-catalog": ["turin"],
    "experiments": ["quito"],
    "rollout": ["bergen", "spare", "turin"],
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """A Moorage with the examples applied and all clusters available."""
    async with running(broker.bootstrap, f"{RUN}-ocm", tmp_path_factory.mktemp("ocm")) as found:
        done = await found.here("apply", "-f", str(FOLDER))
        assert {line.split()[-1] for line in done.out.splitlines()} == {"created"}
        assert done.err == ""
        for name in CLUSTERS:
            await found.here("report", f"managedcluster/{name}", f"{AVAILABLE}=True")
        yield found


async def selected(live: Live, placement: str) -> list[str]:
    """The clusters in the decisions of a placement."""
    words = ("get", "pd", *HERE, "-l", f"{GROUP}/placement={placement}", "-o", "json")
    pages = (await live.here(*words)).json["items"]
    return sorted(one["clusterName"] for page in pages for one in page["status"]["decisions"])


async def rows(live: Live, *words: str) -> dict[str, list[str]]:
    """What `get` shows, by name."""
    lines = (await live.here("get", *words, "--no-headers")).out.splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


async def settled(live: Live, **other: list[str]) -> None:
    """Return when the placements have selected what their comments say, but for `other`."""
    wanted = {**SELECTED, **{name.replace("_", "-"): clusters for name, clusters in other.items()}}
    found: dict[str, list[str]] = {}

    async def so() -> bool:
        found.update({name: await selected(live, name) for name in wanted})
        return found == wanted

    try:
        await until(so)
    except TimeoutError:
        assert found == wanted


async def test_placements_select_what_their_comments_say(live: Live) -> None:
    await settled(live)
    shown = await rows(live, "placements", *HERE)
    assert {name: words[-1] for name, words in shown.items()} == {
        name: str(len(clusters)) for name, clusters in SELECTED.items()
    }
    assert shown["everywhere"][0] == "True"
    assert shown["experiments"][:2] == ["False", "NotAllDecisionsScheduled"]


async def test_applying_the_examples_again_changes_nothing(live: Live) -> None:
    done = await live.here("apply", "-f", str(FOLDER))
    assert {line.split()[-1] for line in done.out.splitlines()} == {"unchanged"}


async def test_every_example_document_is_shown(live: Live) -> None:
    for file in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text("utf-8")):
            metadata = document["metadata"]
            namespace = metadata.get("namespace", "default")
            found = (await live.here("get", document["kind"], metadata["name"], "-n", namespace, "-o", "json")).json
            assert found["kind"] == document["kind"]


async def test_sets_bindings_and_add_ons_say_how_they_are(live: Live) -> None:
    assert {name: words[0] for name, words in (await rows(live, "managedclustersets")).items()} == {
        **dict.fromkeys(("retail", "lab", "productive", "default", "global"), "False")
    }
    assert {words[1] for words in (await rows(live, "mclsetbindings", *HERE)).values()} == {"True"}
    assert (await rows(live, "managedclusters", "-l", f"{GROUP}/clusterset=retail")).keys() == {"turin", "bergen"}
    # One that says nothing is in the default set.
    assert (await rows(live, "managedclusters", "-l", f"{GROUP}/clusterset=default")).keys() == {"spare"}
    assert (await rows(live, "mca", "-n", "turin"))["catalog"][0] == "True"
    assert (await rows(live, "mca", "-n", "bergen"))["catalog"][0] == "Unknown"
    assert (await rows(live, "addonplacementscores", "-A"))["bergen"][:2] == ["usage", "disk=80"]
    told = (await live.here("describe", "managedcluster", "turin")).out
    assert "Cluster sets:   productive,retail" in told
    assert "with-catalog" in told
    told = (await live.here("describe", "placement", "rollout", *HERE)).out
    assert "0 (north)" in told
    assert "Decision:" in told


async def test_groups_hold_one_cluster_each_the_named_ones_first(live: Live) -> None:
    pages = (await live.here("get", "pd", *HERE, "-l", f"{GROUP}/placement=rollout", "-o", "json")).json["items"]
    groups = {
        int(page["metadata"]["labels"][f"{GROUP}/decision-group-index"]): (
            page["metadata"]["labels"].get(f"{GROUP}/decision-group-name", ""),
            [one["clusterName"] for one in page["status"]["decisions"]],
        )
        for page in pages
    }
    assert groups == {0: ("north", ["bergen"]), 1: ("north", ["spare"]), 2: ("", ["turin"])}


async def test_taints_and_conditions_move_decisions(live: Live) -> None:
    await live.here("taint", "managedcluster", "bergen", "patching:NoSelect")
    await settled(
        live,
        everywhere=["spare", "turin"],
        north_or_large=["spare", "turin"],
        memory=["turin"],
        disk=["turin"],
        rollout=["spare", "turin"],
    )
    # Also `disk` goes back: three times its score there is more than what speaks for a decision that is made.
    await live.here("taint", "managedcluster", "bergen", "patching-")
    await settled(live)
    await live.here("report", "managedcluster/quito", f"{AVAILABLE}=Unknown")

    async def unreachable() -> bool:
        return "unreachable:NoSelect" in (await live.here("get", "managedclusters", "-o", "wide")).out

    await until(unreachable)
    # It is tolerated for ten minutes.
    assert await selected(live, "experiments") == ["quito"]
    await live.here("report", "managedcluster/quito", f"{AVAILABLE}=False")
    await settled(live, experiments=[])
    await live.here("report", "managedcluster/quito", f"{AVAILABLE}=True")
    await settled(live)
