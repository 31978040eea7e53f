"""A page about managed clusters, as written: every snippet and command, and what it says they do.

The page is our own, in tests/support/pages. Where `MOORAGE_DOCUMENTS` names a folder of documents, the one there is
held to the same. Commands of `oc` and `kubectl` are run as `moorage`.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support import documents
from tests.support.brokers import Broker
from tests.support.live import Live, running
from tests.support.waiting import until

from moorage.cli.api.client import Client
from moorage.cli.api.kinds import find

pytestmark = pytest.mark.kafka

GROUP = "cluster.open-cluster-management.io"
SET_LABEL = f"{GROUP}/clusterset"
OF = f"{GROUP}/placement"
AVAILABLE = "ManagedClusterConditionAvailable"
CLUSTER = find("managedclusters")


class Told:
    """What a page says, and what it takes for granted."""

    def __init__(self, pages: documents.Pages, placed: dict[str, int], fill: dict[str, str]) -> None:
        (path,) = pages.paths
        self.examples, self.commands, self._fill = pages.examples, pages.commands, fill
        self.placed = placed
        """How many of the clusters, the last of them, each placement of the first kind selects."""
        self.system_labels = documents.system_labels(path)
        self.placements = self.objects("Placement")
        (page,) = self.objects("PlacementDecision")
        self.names = tuple(one["clusterName"] for one in page["status"]["decisions"])
        """All clusters, in their order."""
        self.sets = sorted({name for one in self.placements for name in one["spec"].get("clusterSets", ())})
        wanted = [
            predicate["requiredClusterSelector"]
            for one in self.placements
            for predicate in one["spec"].get("predicates", ())
        ]
        self.claims = sorted(
            {
                (wish["key"], wish["values"][0])
                for one in wanted
                for wish in one.get("claimSelector", {}).get("matchExpressions", ())
            }
        )
        self.labels = {
            key: value
            for one in wanted
            for key, value in one.get("labelSelector", {}).get("matchLabels", {}).items()
            if key not in self.system_labels
        }
        self.scores = [
            config["scoreCoordinate"]["addOn"]
            for one in self.placements
            for config in one["spec"].get("prioritizerPolicy", {}).get("configurations", ())
            if "addOn" in config["scoreCoordinate"]
        ]

    def fill(self, text: str) -> str:
        """Put something in the places that the page leaves to its reader."""
        for place, value in self._fill.items():
            text = text.replace(place, value)
        return text

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """The snippets that are whole objects of a kind."""
        found = [yaml.safe_load(self.fill(one.text)) for one in self.examples]
        return [one for one in found if one.get("kind") == kind]

    def words(self, verb: str) -> list[str]:
        """The one command with this verb: what comes behind `oc` or `kubectl`."""
        (found,) = (shlex.split(self.fill(one.text)) for one in self.commands if f" {verb} " in one.text)
        return found[1:]

    def cluster(self, number: int, name: str) -> dict[str, Any]:
        """A cluster that every selector of the page takes; the later ones have more to offer."""
        amounts = {"cpu": str(4 * number), "memory": f"{16 * number}Gi"}
        return {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": {**self.labels, **({SET_LABEL: self.sets[0]} if number > 1 else {})}},
            "spec": {"hubAcceptsClient": True},
            "status": {
                "clusterClaims": [{"name": key, "value": value} for key, value in self.claims],
                "capacity": {"cpu": "100", "memory": "400Gi"},
                "allocatable": amounts,
            },
        }

    def world(self) -> list[dict[str, Any]]:
        """What the page takes for granted: the clusters, the sets that it does not show, bindings, scores."""
        namespaces = sorted({one["metadata"]["namespace"] for one in self.placements})
        sets = [
            {"apiVersion": f"{GROUP}/v1beta2", "kind": "ManagedClusterSet", "metadata": {"name": one}}
            for one in self.sets
        ]
        bindings = [
            {
                "apiVersion": f"{GROUP}/v1beta2",
                "kind": "ManagedClusterSetBinding",
                "metadata": {"name": one, "namespace": namespace},
                "spec": {"clusterSet": one},
            }
            for one in (*self.sets, "default")
            for namespace in namespaces
        ]
        scores = [
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "AddOnPlacementScore",
                "metadata": {"name": score["resourceName"], "namespace": name},
                "status": {"scores": [{"name": score["scoreName"], "value": 10 * number}]},
            }
            for number, name in enumerate(self.names, start=1)
            for score in self.scores
        ]
        return [*sets, *bindings, *scores]


OWN = Told(
    documents.own("managed-clusters"),
    {"by-label": 3, "by-claim": 3, "by-set": 2, "three": 3, "roomiest": 1, "strongest": 1, "two-best": 2},
    {"<set>": "coastal", "<cluster>": "brig"},
)
GIVEN = documents.given("003")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of a snippet is one for each snippet of the page of its class."""
    if "example" in metafunc.fixturenames:
        found = metafunc.cls.told.examples
        metafunc.parametrize("example", found, ids=[f"{one.document}:{one.line}" for one in found])


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


async def _decide_as_shown(live: Live, told: Told, page: dict[str, Any], text: str) -> None:
    """Bring about what a page of decisions shows: the placement that it names selects these clusters.

    Applying the page then changes nothing. One that says anything else is refused, with what is not so.
    """
    metadata = page["metadata"]
    placement = next(
        one
        for one in told.placements
        if (one["metadata"]["name"], one["metadata"]["namespace"]) == (metadata["labels"][OF], metadata["namespace"])
    )
    await live.here("apply", "-f", "-", text=yaml.safe_dump(placement))
    clusters = {one["clusterName"] for one in page["status"]["decisions"]}
    assert clusters == set(told.names)
    await _healthy(live, told)
    await _until_decided(live, placement, clusters)
    other = {**page, "status": {"decisions": page["status"]["decisions"][1:]}}
    said: list[str] = []

    async def as_shown() -> bool:
        # What an earlier snippet has changed may still be on its way, and change the decision for a moment.
        nonlocal said
        said = [await live.shown("apply", "-f", "-", text=one) for one in (text, yaml.safe_dump(other))]
        unchanged = f"placementdecision.{GROUP}/{metadata['name']} unchanged"
        return unchanged in said[0] and "status.decisions: Invalid value" in said[1]

    try:
        await until(as_shown)
    except TimeoutError:
        pytest.fail("\n".join(said))


async def _healthy(live: Live, told: Told) -> None:
    """All clusters available, in a set that is bound, and without taints."""
    for name in told.names:
        found = await _get(live, "managedcluster", name)
        for taint in found["spec"].get("taints", ()):
            if not taint["key"].startswith(GROUP):
                await live.here("taint", "managedcluster", name, f"{taint['key']}:{taint['effect']}-")
    plain = told.objects("ManagedCluster")[0]
    await live.here("apply", "-f", "-", text=yaml.safe_dump(plain))
    with Client(live.server) as client:
        # A manifest without labels takes away those that the one before it had, as kubectl's do: all of them.
        client.patch(CLUSTER, "", told.names[0], {"metadata": {"labels": told.labels}})
    await _report(live, "True", *told.names)

    async def clean() -> bool:
        listed = (await live.here("get", "managedclusters", "-o", "json")).json["items"]
        return not any(one["spec"].get("taints") for one in listed)

    await until(clean)


class Documented:
    """What holds of a page; a class for each says which."""

    name: ClassVar[str]
    told: ClassVar[Told]
    counts: ClassVar[tuple[int, ...]]
    """Snippets, commands, labels of the system, sets, claims, labels and scores: so that none is overlooked."""

    @pytest_asyncio.fixture(scope="class", loop_scope="session")
    @classmethod
    async def live(cls, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
        """A Moorage with what the page takes for granted."""
        told = cls.told
        async with running(broker.bootstrap, f"{RUN}-{cls.name}", tmp_path_factory.mktemp(cls.name)) as found:
            world = told.world()
            await found.namespaces(*{one["metadata"].get("namespace", "default") for one in world})
            await found.here("apply", "-f", "-", text=yaml.safe_dump_all(world))
            with Client(found.server) as client:
                # Not with `apply`: the labels and claims are the clusters' own and stay when a snippet leaves them out.
                for number, name in enumerate(told.names, start=1):
                    client.create(CLUSTER, "", told.cluster(number, name))
            await _report(found, "True", *told.names)
            yield found

    def test_the_page_says_as_much_as_it_did(self) -> None:
        told = self.told
        said = (told.examples, told.commands, told.system_labels, told.sets, told.claims, told.labels, told.scores)
        assert self.counts == tuple(
            len(part) for part in (*said[:2], list(said[2]), *said[3:5], list(said[5]), said[6])
        )

    async def test_a_snippet_applies_as_written(self, live: Live, example: documents.Example) -> None:
        text = self.told.fill(example.text)
        wanted = yaml.safe_load(text)
        if "kind" not in wanted:
            # The part of a cluster that is to be taken away from it.
            whole = {**self.told.objects("ManagedCluster")[0]}
            whole["metadata"] = {**whole["metadata"], **wanted}
            wanted, text = whole, yaml.safe_dump(whole)
        if wanted["kind"] == "PlacementDecision":
            await _decide_as_shown(live, self.told, wanted, text)
            return
        for taint in wanted.get("spec", {}).get("taints", ()):
            # Two of the page's taints are the system's own: they are there while the cluster is so.
            states = {"unavailable": "False", "unreachable": "Unknown"}
            await _report(live, states.get(taint["key"].rpartition("/")[2], "True"), wanted["metadata"]["name"])
        name, namespace = wanted["metadata"]["name"], wanted["metadata"].get("namespace", "default")
        await live.namespaces(namespace)
        done = await live.here("apply", "-f", "-", text=text)
        called, word = done.out.split()
        assert called == f"{wanted['kind'].lower()}.{wanted['apiVersion'].partition('/')[0]}/{name}"
        assert word in {"created", "configured", "unchanged"}

        async def shown() -> bool:
            found = await _get(live, wanted["kind"], name, namespace)
            labels = _covers(found["metadata"].get("labels", {}), wanted["metadata"].get("labels", {}))
            return labels and all(
                _covers(found.get(part), wanted.get(part)) for part in ("spec", "rules") if part in wanted
            )

        await until(shown)
        assert (await live.here("apply", "-f", "-", text=text)).out == f"{called} unchanged\n"
        if wanted["kind"] == "ClusterRole":
            assert done.err == ""

    async def test_what_placements_select_is_what_the_page_says(self, live: Live) -> None:
        """Placements by labels, claims, sets, numbers and scores; add-ons have a test of their own."""
        await _healthy(live, self.told)
        told = self.told
        first: dict[str, dict[str, Any]] = {}
        for one in told.placements:
            if one["metadata"]["namespace"] == told.placements[0]["metadata"]["namespace"]:
                first.setdefault(one["metadata"]["name"], one)
        for placement in first.values():
            await live.here("apply", "-f", "-", text=yaml.safe_dump(placement))
        assert first.keys() == told.placed.keys()
        # The sets do not have the first of the clusters, and the later ones have more to offer.
        expected = {name: set(told.names[-count:]) for name, count in told.placed.items()}
        for name, clusters in expected.items():
            await _until_decided(live, first[name], clusters)
            lines = (
                await live.here("get", "placements", name, "-n", first[name]["metadata"]["namespace"], "--no-headers")
            ).out.split()
            assert lines == [name, "True", "AllDecisionsScheduled", str(len(clusters))]

    async def test_add_ons_are_selected_by_the_state_that_the_system_keeps(self, live: Live) -> None:
        await _healthy(live, self.told)
        ((label, state),) = self.told.system_labels.items()
        add_on = label.partition("/addon-")[2]
        metadata = {"name": add_on, "namespace": self.told.names[1]}
        renewed = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        lease = {"holderIdentity": "agent", "leaseDurationSeconds": 3600, "renewTime": renewed}
        documents = [
            {
                "apiVersion": "addon.open-cluster-management.io/v1alpha1",
                "kind": "ManagedClusterAddOn",
                "metadata": metadata,
                "spec": {},
            },
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": lease},
        ]
        await live.here("apply", "-f", "-", text=yaml.safe_dump_all(documents))

        async def labelled() -> bool:
            done = await live.here("get", "managedclusters", "-l", f"{label}={state}", "-o", "name")
            return done.out == f"managedcluster.{GROUP}/{self.told.names[1]}\n"

        await until(labelled)
        assert (await live.here("get", "mca", "-n", self.told.names[1], "--no-headers")).out.split()[:2] == [
            add_on,
            "True",
        ]
        asked = [one for one in self.told.placements if label in yaml.safe_dump(one)]
        with_it = {self.told.names[1]}
        without: set[str] = set(self.told.names) - with_it
        for placement, clusters in zip(asked, (with_it, with_it, without), strict=True):
            await live.here("apply", "-f", "-", text=yaml.safe_dump(placement))
            await _until_decided(live, placement, clusters)
        # Disabled: the label goes, and with it what selects by it.
        await live.here("delete", "managedclusteraddon", add_on, "-n", self.told.names[1])
        await _until_decided(live, asked[-1], set(self.told.names))
        await _until_decided(live, asked[0], set())

    async def test_a_cluster_is_listed_in_its_set_until_its_label_is_gone(self, live: Live) -> None:
        await _healthy(live, self.told)
        listed = self.told.words("get")
        plain, member = self.told.objects("ManagedCluster")[:2]
        await live.here("apply", "-f", "-", text=yaml.safe_dump(member))
        name = member["metadata"]["name"]
        assert name in [line.split()[0] for line in (await live.here(*listed)).out.splitlines()]
        await live.here("apply", "-f", "-", text=yaml.safe_dump(plain))
        assert name not in [line.split()[0] for line in (await live.here(*listed)).out.splitlines()]
        assert (await _get(live, "managedcluster", name))["metadata"]["labels"][SET_LABEL] == "default"
        # The default set takes what no other has, and stays as it is.
        assert name in (await live.here("describe", "managedclusterset", "default")).out
        refused = await live.here("delete", "managedclusterset", "default", code=1)
        assert "may not be deleted" in refused.err

    async def test_the_taint_of_the_command_keeps_placements_away(self, live: Live) -> None:
        await _healthy(live, self.told)
        placement = self.told.placements[0]
        await live.here("apply", "-f", "-", text=yaml.safe_dump(placement))
        await _until_decided(live, placement, set(self.told.names))
        _, _, name, spec = words = self.told.words("taint")
        done = await live.here(*words)
        assert done.out == f"managedcluster.{GROUP}/{name} tainted\n"
        await _until_decided(live, placement, set(self.told.names) - {name})
        await live.here("taint", "managedcluster", name, f"{spec.partition('=')[0]}-")
        await _until_decided(live, placement, set(self.told.names))

    async def test_a_toleration_lets_a_placement_select_what_is_tainted(self, live: Live) -> None:
        await _healthy(live, self.told)
        tolerant = next(one for one in self.told.placements if one["metadata"]["namespace"] == "default")
        (toleration,) = tolerant["spec"]["tolerations"]
        tainted = next(
            one
            for one in self.told.objects("ManagedCluster")
            if any(taint["key"] == toleration["key"] for taint in one["spec"].get("taints", ()))
        )
        await live.here("apply", "-f", "-", text=yaml.safe_dump_all([tainted, tolerant, self.told.placements[0]]))
        await _until_decided(live, tolerant, set(self.told.names))
        await _until_decided(live, self.told.placements[0], set(self.told.names) - {tainted["metadata"]["name"]})

    async def test_an_unreachable_cluster_is_kept_for_as_long_as_it_is_tolerated(self, live: Live) -> None:
        await _healthy(live, self.told)
        patient = next(
            one for one in self.told.placements if "tolerationSeconds" in one["spec"].get("tolerations", [{}])[0]
        )
        name, namespace = patient["metadata"]["name"], patient["metadata"]["namespace"]
        (toleration,) = patient["spec"]["tolerations"]
        await live.here("apply", "-f", "-", text=yaml.safe_dump_all([patient, self.told.placements[0]]))
        await _until_decided(live, patient, set(self.told.names))
        await _report(live, "Unknown", self.told.names[2])
        await _until_decided(live, self.told.placements[0], set(self.told.names[:2]))
        assert await _decided(live, namespace, name) == list(self.told.names)
        (taint,) = (await _get(live, "managedcluster", self.told.names[2]))["spec"]["taints"]
        assert (taint["key"], taint["effect"]) == (toleration["key"], "NoSelect")
        due = datetime.fromisoformat(taint["timeAdded"]) + timedelta(seconds=toleration["tolerationSeconds"])

        async def waits() -> bool:
            found = (await _get(live, "wp", f"placement:{name}", namespace))["status"]
            again = found.get("decideAgain")
            return again is not None and datetime.fromisoformat(again) == due

        await until(waits)


class TestOwn(Documented):
    """Our own page."""

    name = "page"
    told = OWN
    counts = (23, 2, 1, 2, 1, 1, 1)


if GIVEN is not None:
    _TOLD = Told(
        GIVEN,
        {f"placement{number}": count for number, count in ((1, 3), (2, 3), (3, 2), (4, 3), (6, 1), (7, 1), (8, 2))},
        {"<clusterset1>": "clusterset1", "<managed_cluster_name>": "cluster2"},
    )

    class TestGiven(Documented):
        """The document in the folder that `MOORAGE_DOCUMENTS` names."""

        name = "document"
        told = _TOLD
        counts = (24, 2, 1, 2, 1, 1, 1)
