"""The user's own document on managed clusters, as written: every snippet and command, and what it says they do.

It is read from beside the project; where it is not, the test fails, unless MOORAGE_WITHOUT_SEEDS says that this is
known. Commands of `oc` and `kubectl` are run as `moorage`.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests import seeds
from tests.brokers import Broker
from tests.conftest import RUN
from tests.kafka.cli_stack import Live, running, until

from moorage.cli.client import Client
from moorage.cli.kinds import find

pytestmark = pytest.mark.kafka

GROUP = "cluster.open-cluster-management.io"
SET_LABEL = f"{GROUP}/clusterset"
OF = f"{GROUP}/placement"
AVAILABLE = "ManagedClusterConditionAvailable"
CLUSTER = find("managedclusters")
NAMES = ("cluster1", "cluster2", "cluster3")


def paths() -> list[Any]:
    found = seeds.documents("003")
    if not found:
        told = f"the user's document is not at {seeds.FOLDER}: nothing of it is tested"
        if "MOORAGE_WITHOUT_SEEDS" not in os.environ:
            raise pytest.UsageError(f"{told}; set MOORAGE_WITHOUT_SEEDS=1 to test without it")
        warnings.warn(told, stacklevel=1)
    return found


PATHS = paths()
EXAMPLES = [one for path in PATHS for one in seeds.examples(path)]
COMMANDS = [one for path in PATHS for one in seeds.commands(path)]
SYSTEM_LABELS = {name: state for path in PATHS for name, state in seeds.system_labels(path).items()}


def _fill(text: str) -> str:
    """Put something in the places that the document leaves to its reader."""
    return text.replace("<clusterset1>", "clusterset1").replace("<managed_cluster_name>", "cluster2")


def _objects(kind: str = "") -> list[dict[str, Any]]:
    found = [yaml.safe_load(_fill(one.text)) for one in EXAMPLES]
    return [one for one in found if kind in {"", one.get("kind")}]


PLACEMENTS = _objects("Placement")
NAMESPACES = sorted({one["metadata"]["namespace"] for one in PLACEMENTS})
SETS = sorted({name for one in PLACEMENTS for name in one["spec"].get("clusterSets", ())})
CLAIMS = sorted(
    {
        (wish["key"], wish["values"][0])
        for one in PLACEMENTS
        for predicate in one["spec"].get("predicates", ())
        for wish in predicate["requiredClusterSelector"].get("claimSelector", {}).get("matchExpressions", ())
    }
)
LABELS = {
    key: value
    for one in PLACEMENTS
    for predicate in one["spec"].get("predicates", ())
    for key, value in predicate["requiredClusterSelector"].get("labelSelector", {}).get("matchLabels", {}).items()
    if key not in SYSTEM_LABELS
}
SCORES = [
    config["scoreCoordinate"]["addOn"]
    for one in PLACEMENTS
    for config in one["spec"].get("prioritizerPolicy", {}).get("configurations", ())
    if "addOn" in config["scoreCoordinate"]
]


def _cluster(number: int, name: str) -> dict[str, Any]:
    """A cluster that every selector of the document takes; the later ones have more to offer."""
    amounts = {"cpu": str(4 * number), "memory": f"{16 * number}Gi"}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {**LABELS, **({SET_LABEL: SETS[0]} if number > 1 else {})}},
        "spec": {"hubAcceptsClient": True},
        "status": {
            "clusterClaims": [{"name": key, "value": value} for key, value in CLAIMS],
            "capacity": {"cpu": "100", "memory": "400Gi"},
            "allocatable": amounts,
        },
    }


def _world() -> list[dict[str, Any]]:
    """What the document takes for granted: the clusters, the sets that it does not show, bindings, scores."""
    sets = [{"apiVersion": f"{GROUP}/v1beta2", "kind": "ManagedClusterSet", "metadata": {"name": one}} for one in SETS]
    bindings = [
        {
            "apiVersion": f"{GROUP}/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": {"name": one, "namespace": namespace},
            "spec": {"clusterSet": one},
        }
        for one in (*SETS, "default")
        for namespace in NAMESPACES
    ]
    scores = [
        {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "AddOnPlacementScore",
            "metadata": {"name": score["resourceName"], "namespace": name},
            "status": {"scores": [{"name": score["scoreName"], "value": 10 * number}]},
        }
        for number, name in enumerate(NAMES, start=1)
        for score in SCORES
    ]
    return [*sets, *bindings, *scores]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """A Moorage with what the document takes for granted."""
    if not PATHS:
        pytest.fail("the user's document is not there, so nothing of it can be run")
    async with running(broker.bootstrap, f"{RUN}-managed", tmp_path_factory.mktemp("managed")) as found:
        await found.here("apply", "-f", "-", text=yaml.safe_dump_all(_world()))
        with Client(found.server) as client:
            # Not with `apply`: the labels and claims are the clusters' own and stay when a snippet leaves them out.
            for number, name in enumerate(NAMES, start=1):
                client.create(CLUSTER, "", _cluster(number, name))
        await _report(found, "True", *NAMES)
        yield found


async def _report(live: Live, status: str, *names: str) -> None:
    for name in names:
        await live.here("report", f"managedcluster/{name}", f"{AVAILABLE}={status}")


async def _get(live: Live, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
    found: dict[str, Any] = (await live.here("get", kind, name, "-n", namespace, "-o", "json")).json
    return found


async def _decided(live: Live, namespace: str, placement: str) -> list[str]:
    """The clusters that a placement has selected, by its decisions."""
    words = ("get", "placementdecisions", "-n", namespace, "-l", f"{OF}={placement}", "-o", "json")
    pages = (await live.here(*words)).json["items"]
    return sorted(one["clusterName"] for page in pages for one in page["status"]["decisions"])


async def _until_decided(live: Live, placement: dict[str, Any], clusters: set[str]) -> None:
    name, namespace = placement["metadata"]["name"], placement["metadata"]["namespace"]
    found: list[str] = []

    async def so() -> bool:
        nonlocal found
        found = await _decided(live, namespace, name)
        status = (await _get(live, "placement", name, namespace)).get("status", {})
        return set(found) == clusters and status.get("numberOfSelectedClusters") == len(clusters)

    try:
        await until(so)
    except TimeoutError:
        pytest.fail(f"{namespace}/{name} selects {found} and not {sorted(clusters)}")


def _covers(shown: Any, wanted: Any) -> bool:
    """Whether what is shown says all that was wanted; when a taint was added is the system's to say."""
    if isinstance(wanted, dict):
        said = {name: value for name, value in wanted.items() if name != "timeAdded" and value not in ("", None)}
        return isinstance(shown, dict) and all(_covers(shown.get(name), value) for name, value in said.items())
    if isinstance(wanted, list):
        return isinstance(shown, list) and all(any(_covers(one, item) for one in shown) for item in wanted)
    return bool(shown == wanted)


def test_the_document_says_as_much_as_it_did() -> None:
    said = (len(EXAMPLES), len(COMMANDS), len(SYSTEM_LABELS), len(SETS), len(CLAIMS), len(LABELS), len(SCORES))
    assert said == ((24, 2, 1, 2, 1, 1, 1) if PATHS else (0,) * 7)


@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=lambda n: f"{EXAMPLES[n].document}:{EXAMPLES[n].line}")
async def test_a_snippet_applies_as_written(live: Live, number: int) -> None:
    text = _fill(EXAMPLES[number].text)
    wanted = yaml.safe_load(text)
    if "kind" not in wanted:
        # The part of a cluster that is to be taken away from it.
        whole = {**_objects("ManagedCluster")[0]}
        whole["metadata"] = {**whole["metadata"], **wanted}
        wanted, text = whole, yaml.safe_dump(whole)
    if wanted["kind"] == "PlacementDecision":
        await _decide_as_shown(live, wanted)
    for taint in wanted.get("spec", {}).get("taints", ()):
        # Two of the document's taints are the system's own: they are there while the cluster is so.
        states = {"unavailable": "False", "unreachable": "Unknown"}
        await _report(live, states.get(taint["key"].rpartition("/")[2], "True"), wanted["metadata"]["name"])
    name, namespace = wanted["metadata"]["name"], wanted["metadata"].get("namespace", "default")
    done = await live.here("apply", "-f", "-", text=text)
    called, word = done.out.split()
    assert called == f"{wanted['kind'].lower()}.{wanted['apiVersion'].partition('/')[0]}/{name}"
    assert word in {"created", "configured", "unchanged"}
    if wanted["kind"] == "PlacementDecision":
        assert word == "unchanged"
        return

    async def shown() -> bool:
        found = await _get(live, wanted["kind"], name, namespace)
        labels = _covers(found["metadata"].get("labels", {}), wanted["metadata"].get("labels", {}))
        return labels and all(
            _covers(found.get(part), wanted.get(part)) for part in ("spec", "rules") if part in wanted
        )

    await until(shown)
    assert (await live.here("apply", "-f", "-", text=text)).out == f"{called} unchanged\n"
    warned = "permissions are not enforced yet" in done.err
    assert warned is (wanted["kind"] == "ClusterRole")


async def _decide_as_shown(live: Live, page: dict[str, Any]) -> None:
    """Bring about what a page of decisions shows: the placement that it names selects these clusters."""
    metadata = page["metadata"]
    placement = next(
        one
        for one in PLACEMENTS
        if (one["metadata"]["name"], one["metadata"]["namespace"]) == (metadata["labels"][OF], metadata["namespace"])
    )
    await live.here("apply", "-f", "-", text=yaml.safe_dump(placement))
    clusters = {one["clusterName"] for one in page["status"]["decisions"]}
    assert clusters == set(NAMES)
    await _healthy(live)
    await _until_decided(live, placement, clusters)
    # One that says anything else is refused, with what is not so.
    other = {**page, "status": {"decisions": page["status"]["decisions"][1:]}}
    refused = await live.here("apply", "-f", "-", text=yaml.safe_dump(other), code=1)
    assert "status.decisions: Invalid value" in refused.err


async def _healthy(live: Live) -> None:
    """All clusters available, in a set that is bound, and without taints."""
    for name in NAMES:
        found = await _get(live, "managedcluster", name)
        for taint in found["spec"].get("taints", ()):
            if not taint["key"].startswith(GROUP):
                await live.here("taint", "managedcluster", name, f"{taint['key']}:{taint['effect']}-")
    plain = _objects("ManagedCluster")[0]
    await live.here("apply", "-f", "-", text=yaml.safe_dump(plain))
    with Client(live.server) as client:
        # A manifest without labels takes away those that the one before it had, as kubectl's do: all of them.
        client.patch(CLUSTER, "", NAMES[0], {"metadata": {"labels": LABELS}})
    await _report(live, "True", *NAMES)

    async def clean() -> bool:
        listed = (await live.here("get", "managedclusters", "-o", "json")).json["items"]
        return not any(one["spec"].get("taints") for one in listed)

    await until(clean)


async def test_what_placements_select_is_what_the_document_says(live: Live) -> None:
    """Placements by labels, claims, sets, numbers and scores; add-ons have a test of their own."""
    await _healthy(live)
    first: dict[str, dict[str, Any]] = {}
    for one in PLACEMENTS:
        if one["metadata"]["namespace"] == "ns1":
            first.setdefault(one["metadata"]["name"], one)
    for placement in first.values():
        await live.here("apply", "-f", "-", text=yaml.safe_dump(placement))
    largest, best = {NAMES[-1]}, set(NAMES[-2:])
    expected = {
        "placement1": set(NAMES),
        "placement2": set(NAMES),
        "placement3": set(NAMES[1:]),  # the sets that it names do not have the first
        "placement4": set(NAMES),
        "placement6": largest,
        "placement7": largest,
        "placement8": best,
    }
    assert set(first) == set(expected)
    for name, clusters in expected.items():
        await _until_decided(live, first[name], clusters)
        lines = (await live.here("get", "placements", name, "-n", "ns1", "--no-headers")).out.split()
        assert lines == [name, "True", "AllDecisionsScheduled", str(len(clusters))]


async def test_add_ons_are_selected_by_the_state_that_the_system_keeps(live: Live) -> None:
    await _healthy(live)
    ((label, state),) = SYSTEM_LABELS.items()
    add_on = label.partition("/addon-")[2]
    metadata = {"name": add_on, "namespace": NAMES[1]}
    renewed = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    lease = {"holderIdentity": "agent", "leaseDurationSeconds": 3600, "renewTime": renewed}
    documents = [
        {
            "apiVersion": "addon.open-cluster-management.io/v1alpha1",
            "kind": "ManagedClusterAddOn",
            "metadata": metadata,
        },
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": lease},
    ]
    await live.here("apply", "-f", "-", text=yaml.safe_dump_all(documents))

    async def labelled() -> bool:
        done = await live.here("get", "managedclusters", "-l", f"{label}={state}", "-o", "name")
        return done.out == f"managedcluster.{GROUP}/{NAMES[1]}\n"

    await until(labelled)
    assert (await live.here("get", "mca", "-n", NAMES[1], "--no-headers")).out.split()[:2] == [add_on, "True"]
    asked = [one for one in PLACEMENTS if label in yaml.safe_dump(one)]
    with_it = {NAMES[1]}
    without: set[str] = set(NAMES) - with_it
    for placement, clusters in zip(asked, (with_it, with_it, without), strict=True):
        await live.here("apply", "-f", "-", text=yaml.safe_dump(placement))
        await _until_decided(live, placement, clusters)
    # Disabled: the label goes, and with it what selects by it.
    await live.here("delete", "managedclusteraddon", add_on, "-n", NAMES[1])
    await _until_decided(live, asked[-1], set(NAMES))
    await _until_decided(live, asked[0], set())


async def test_a_cluster_is_listed_in_its_set_until_its_label_is_gone(live: Live) -> None:
    await _healthy(live)
    (command,) = (shlex.split(_fill(one.text)) for one in COMMANDS if " get " in one.text)
    assert command[0] == "oc"
    plain, member = _objects("ManagedCluster")[:2]
    await live.here("apply", "-f", "-", text=yaml.safe_dump(member))
    name = member["metadata"]["name"]
    assert name in [line.split()[0] for line in (await live.here(*command[1:])).out.splitlines()]
    await live.here("apply", "-f", "-", text=yaml.safe_dump(plain))
    assert name not in [line.split()[0] for line in (await live.here(*command[1:])).out.splitlines()]
    assert (await _get(live, "managedcluster", name))["metadata"]["labels"][SET_LABEL] == "default"
    # The default set takes what no other has, and stays as it is.
    assert name in (await live.here("describe", "managedclusterset", "default")).out
    refused = await live.here("delete", "managedclusterset", "default", code=1)
    assert "may not be deleted" in refused.err


async def test_the_taint_of_the_command_keeps_placements_away(live: Live) -> None:
    await _healthy(live)
    placement = PLACEMENTS[0]
    await live.here("apply", "-f", "-", text=yaml.safe_dump(placement))
    await _until_decided(live, placement, set(NAMES))
    (command,) = (shlex.split(_fill(one.text)) for one in COMMANDS if " taint " in one.text)
    done = await live.here(*command[1:])
    assert done.out == f"managedcluster.{GROUP}/{command[3]} tainted\n"
    await _until_decided(live, placement, set(NAMES) - {command[3]})
    await live.here("taint", "managedcluster", command[3], f"{command[4].partition('=')[0]}-")
    await _until_decided(live, placement, set(NAMES))


async def test_a_toleration_lets_a_placement_select_what_is_tainted(live: Live) -> None:
    await _healthy(live)
    tolerant = next(one for one in PLACEMENTS if one["metadata"]["namespace"] == "default")
    (toleration,) = tolerant["spec"]["tolerations"]
    tainted = next(
        one
        for one in _objects("ManagedCluster")
        if any(taint["key"] == toleration["key"] for taint in one["spec"].get("taints", ()))
    )
    await live.here("apply", "-f", "-", text=yaml.safe_dump_all([tainted, tolerant, PLACEMENTS[0]]))
    await _until_decided(live, tolerant, set(NAMES))
    await _until_decided(live, PLACEMENTS[0], set(NAMES) - {tainted["metadata"]["name"]})


async def test_an_unreachable_cluster_is_kept_for_as_long_as_it_is_tolerated(live: Live) -> None:
    await _healthy(live)
    patient = next(one for one in PLACEMENTS if "tolerationSeconds" in one["spec"].get("tolerations", [{}])[0])
    name, namespace = patient["metadata"]["name"], patient["metadata"]["namespace"]
    (toleration,) = patient["spec"]["tolerations"]
    await live.here("apply", "-f", "-", text=yaml.safe_dump_all([patient, PLACEMENTS[0]]))
    await _until_decided(live, patient, set(NAMES))
    await _report(live, "Unknown", NAMES[2])
    await _until_decided(live, PLACEMENTS[0], set(NAMES[:2]))
    assert await _decided(live, namespace, name) == list(NAMES)
    (taint,) = (await _get(live, "managedcluster", NAMES[2]))["spec"]["taints"]
    assert (taint["key"], taint["effect"]) == (toleration["key"], "NoSelect")
    due = datetime.fromisoformat(taint["timeAdded"]) + timedelta(seconds=toleration["tolerationSeconds"])

    async def waits() -> bool:
        found = (await _get(live, "wp", f"placement:{name}", namespace))["status"]
        again = found.get("decideAgain")
        return again is not None and datetime.fromisoformat(again) == due

    await until(waits)
