"""A filter or prioritizer of each family is one file. It is discovered, rules targets out, and changes decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support.plugins import EXAMPLES, added
from tests.support.tables import table

from moorage.apiserver.rules.validation.ocm import validate_placement
from moorage.decide.scheduling.framework.plugins import Basis, Plugin
from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterPrioritizer, ClusterRequest
from moorage.decide.scheduling.karmada.prioritizers.cluster_locality import ClusterLocality
from moorage.decide.scheduling.karmada.scheduler import ClusterScheduler
from moorage.decide.scheduling.nodes.filters.node_unschedulable import NodeUnschedulable
from moorage.decide.scheduling.nodes.fleet import Fleet, NodeFacts
from moorage.decide.scheduling.nodes.plugin import NodeFilter, NodePrioritizer, PodRequest
from moorage.decide.scheduling.nodes.pod_shape import shape_of
from moorage.decide.scheduling.nodes.prioritizers.least_allocated import NodeResourcesFit
from moorage.decide.scheduling.nodes.scheduler import NodeScheduler
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.decisions.result import Scheduled
from moorage.decide.scheduling.ocm.filters.predicate import Predicate
from moorage.decide.scheduling.ocm.plugin import ManagedFilter, ManagedPrioritizer, Plugins
from moorage.decide.scheduling.ocm.prioritizers.prefer_no_select import PreferNoSelect
from moorage.decide.scheduling.ocm.scheduler import PlacementScheduler
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts as KarmadaFacts
from moorage_schemas.resources.managed import Placement as ManagedPlacement
from moorage_schemas.resources.managed import PlacementSpec
from moorage_schemas.resources.pod import PodSpec
from moorage_schemas.resources.policies import ClusterPlacement

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: list[type[Plugin[Any, Any]]] = [
    NodeFilter,
    NodePrioritizer,
    ClusterFilter,
    ClusterPrioritizer,
    ManagedFilter,
    ManagedPrioritizer,
]
Add = Callable[[type[Plugin[Any, Any]], str], None]


@pytest.fixture
def add(tmp_path: Path) -> Iterator[Add]:
    """Adds one of the examples to the plugins until the test ends."""
    with ExitStack() as stack:
        yield lambda kind, file: stack.enter_context(added(kind, EXAMPLES / file, tmp_path))


# Nodes.


def nodes() -> Fleet:
    fleet = Fleet()
    fleet.put(NodeFacts("a"))
    fleet.put(NodeFacts("b", labels={"example.com/hardware-generation": "2"}))
    fleet.put(NodeFacts("c", labels={"example.com/hardware-generation": "3", "example.com/quarantine": "a test"}))
    return fleet


def test_a_filter_and_a_prioritizer_of_nodes(add: Add) -> None:
    request = PodRequest(shape_of(PodSpec()))
    before = NodeScheduler(nodes()).decide(request)
    assert before.target == "a"
    add(NodePrioritizer, "nodes/hardware_generation.py")
    rated = NodeScheduler(nodes()).decide(request)
    assert rated.target == "c"
    assert {one.target: one.scores["HardwareGeneration"] for one in rated.scores} == {"a": 0, "b": 4 * 66, "c": 4 * 100}
    assert rated.scores[0].total == before.scores[0].total + 400
    add(NodeFilter, "nodes/quarantine.py")
    scheduler = NodeScheduler(nodes())
    assert [one.name for one in scheduler.filters][:3] == ["NodeUnschedulable", "Quarantine", "TaintToleration"]
    filtered = scheduler.decide(request)
    assert filtered.target == "b"
    (result,) = filtered.filters
    assert (result.filter, result.reason, result.targets) == ("Quarantine", "node(s) were in quarantine", ("c",))
    assert not scheduler.eligible(request.shape)[scheduler.fleet.row_of("c")], "a DaemonSet wants no pod there"


# Karmada's clusters.


def clusters() -> ClusterFleet:
    fleet = ClusterFleet()
    for name, labels in (
        ("a", {"example.com/audited": "true"}),
        ("b", {"example.com/audited": "true", "example.com/price": "40"}),
        ("c", {"example.com/price": "10"}),
    ):
        fleet.put(ClusterInfo(KarmadaFacts(name, labels=labels)))
    return fleet


def test_a_filter_and_a_prioritizer_of_clusters(add: Add) -> None:
    one = {"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1}]}
    request = ClusterRequest(ClusterPlacement.model_validate(one), "key", "v1", "ConfigMap")
    assert ClusterScheduler(clusters()).decide(request).targets == {"a": 0}
    add(ClusterPrioritizer, "karmada/price.py")
    rated = ClusterScheduler(clusters()).decide(request)
    assert rated.targets == {"c": 0}
    assert [(one.target, one.total, one.scores["Price"]) for one in rated.scores] == [
        ("c", 180, 180),
        ("b", 120, 120),
        ("a", 0, 0),
    ]
    add(ClusterFilter, "karmada/audited.py")
    filtered = ClusterScheduler(clusters()).decide(request)
    assert filtered.targets == {"b": 0}
    (result,) = filtered.filters
    assert (result.filter, result.reason, result.targets) == ("Audited", "cluster(s) were not audited", ("c",))


# OCM's managed clusters.


def managed() -> ManagedFleet:
    fleet = ManagedFleet()
    fleet.put(ManagedClusterFacts("a"))
    fleet.put(ManagedClusterFacts("b", claims={"power.example.com": "40"}))
    fleet.put(ManagedClusterFacts("c", claims={"power.example.com": "90"}, labels={"example.com/frozen": "May"}))
    return fleet


def placement(weight: int | None) -> dict[str, Any]:
    green: dict[str, Any] = {"scoreCoordinate": {"builtIn": "GreenPower"}}
    return {
        "numberOfClusters": 1,
        "prioritizerPolicy": {"configurations": [green | ({} if weight is None else {"weight": weight})]},
    }


def schedule(spec: dict[str, Any], *, as_upstream: bool = False) -> Scheduled:
    fleet = managed()
    terms = terms_of(PlacementSpec.model_validate(spec), as_upstream=as_upstream)
    return PlacementScheduler(fleet).schedule(terms, usage=Usage(fleet), now=NOW)


def wrong(spec: dict[str, Any]) -> list[str]:
    document = {"apiVersion": "a/v1", "kind": "Placement", "metadata": {"name": "p"}, "spec": spec}
    found = validate_placement(ManagedPlacement.model_validate(document), Plugins.discovered().built_in_names)
    return [str(one) for one in found]


def test_a_filter_and_a_prioritizer_of_managed_clusters(add: Add) -> None:
    assert schedule({"numberOfClusters": 1}).decisions == ("a",)
    assert schedule(placement(1)).status.message == "incorrect builtin prioritizer: GreenPower"
    add(ManagedPrioritizer, "ocm/green_power.py")
    rated = schedule(placement(2))
    assert rated.decisions == ("c",)
    (best, *_) = rated.best()
    assert best.scores == {"Balance": 100, "Steady": 0, "GreenPower": 180}
    assert [one.weight for one in rated.prioritizers] == [1, 1, 2]
    assert schedule(placement(None)).best()[0].scores["GreenPower"] == 90, "1 when the spec gives no weight"
    assert schedule({"numberOfClusters": 1}).decisions == ("a",), "its own weight is 0"
    assert schedule(placement(2), as_upstream=True).status.is_error, "upstream does not have it"
    add(ManagedFilter, "ocm/frozen.py")
    filtered = schedule(placement(2))
    assert filtered.decisions == ("b",)
    (result,) = filtered.ruled_out()
    assert (result.filter, result.reason, result.targets) == ("Frozen", "cluster(s) were frozen", ("c",))
    verdict = filtered.verdict("c")
    assert verdict.against is not None
    assert (verdict.against.filter, verdict.against.details) == ("Frozen", ("frozen since May",))


def test_a_placement_may_name_a_prioritizer_as_soon_as_its_file_is_there(add: Add) -> None:
    path = "spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn"
    known = '"Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory", "PreferNoSelect"'
    assert wrong(placement(2)) == [f'{path}: Unsupported value: "GreenPower": supported values: {known}']
    add(ManagedPrioritizer, "ocm/green_power.py")
    assert wrong(placement(2)) == []
    misspelt = placement(2)
    misspelt["prioritizerPolicy"]["configurations"][0]["scoreCoordinate"]["builtIn"] = "GreenPowr"
    assert wrong(misspelt) == [f'{path}: Unsupported value: "GreenPowr": supported values: {known}, "GreenPower"']


def test_a_prioritizer_with_a_weight_of_its_own_is_a_default(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    add(ManagedPrioritizer, "ocm/green_power.py")
    (green,) = (one for one in ManagedPrioritizer.discovered() if one.name == "GreenPower")
    monkeypatch.setattr(type(green), "weight", 3)
    assert schedule({"numberOfClusters": 1}).best()[0].scores == {"Balance": 100, "Steady": 0, "GreenPower": 270}
    exact = {"numberOfClusters": 1, "prioritizerPolicy": {"mode": "Exact"}}
    assert schedule(exact).best()[0].scores == {}


# What is refused.


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_without_a_plugin_of_its_kind_is_refused(kind: type[Plugin[Any, Any]], tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text('"""Nothing."""\n')
    with (
        added(kind, file, tmp_path / "there"),
        pytest.raises(TypeError, match=rf"{kind.package}\.empty must have a PLUGIN that is a {kind.__name__}"),
    ):
        kind.discovered()
    assert kind.discovered(), "what was refused is forgotten with its folder"


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "same.py"
    file.write_text((EXAMPLES / "karmada" / "audited.py").read_text().replace('"Audited"', '"ClusterAffinity"'))
    with (
        added(ClusterFilter, file, tmp_path / "there"),
        pytest.raises(TypeError, match="another ClusterFilter has the name ClusterAffinity"),
    ):
        ClusterFilter.discovered()


class Named(NodeUnschedulable):
    """Rules nothing out."""

    name = ""


class Undescribed(NodeUnschedulable):
    name = "Undescribed"


class Remembering(NodeUnschedulable):
    """Rules nothing out."""

    rests_on = Basis.DECIDED


class Odd(NodeResourcesFit):
    """Prefers nothing."""

    lowest: ClassVar[int] = 100


class Relative(ClusterLocality):
    """Prefers nothing."""

    relative = True


class Terse(Predicate):
    """Rules nothing out."""

    summary: ClassVar[str] = ""


class Crowded(Predicate):
    """Rules nothing out."""

    rests_on = Basis.USAGE


class Groundless(PreferNoSelect):
    """Prefers nothing."""

    columns = ManagedPrioritizer.columns


@table(
    ("plugin", "flaw"),
    [
        (Named(), "it has no name"),
        (Undescribed(), "its class has no docstring"),
        (
            Remembering(),
            "it depends on earlier decisions, but pods of one shape share the decision that no node fits",
        ),
        (Odd(), "its scores are between 100 and 100, not within -100 and 100"),
        (Relative(), "its scores are relative, but clusters are scored one by one"),
        (Terse(), "it has no summary"),
        (Crowded(), "it depends on usage, but placements share its answers"),
        (Groundless(), "its scores depend on the clusters, but it names no columns"),
    ],
)
def test_a_plugin_that_contradicts_itself_is_refused(plugin: Plugin[Any, Any], flaw: str) -> None:
    assert list(plugin.flaws()) == [flaw]


def test_scores_that_would_not_fit_are_refused() -> None:
    class Heavy(NodeResourcesFit):
        weight: ClassVar[int] = 21_000

    class Loud(ClusterLocality):
        weight: ClassVar[int] = 10

    with pytest.raises(ValueError, match="the scores of all prioritizers of nodes together can reach 2097152"):
        NodeScheduler(Fleet(), prioritizers=[Heavy()])
    with pytest.raises(ValueError, match="the scores of all prioritizers of clusters together can reach 1000"):
        ClusterScheduler(ClusterFleet(), prioritizers=[Loud()])


@pytest.mark.parametrize("kind", KINDS)
def test_every_plugin_says_what_it_does(kind: type[Plugin[Any, Any]]) -> None:
    for one in kind.discovered():
        assert list(one.flaws()) == []
        assert one.help.endswith("."), one.name
        assert one.help.startswith(("Rules out ", "Prefers ", "Takes ")), one.name
