"""Open Cluster Management's kinds on the command line, with a gateway in memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Object, Run, said, status
from typer.testing import CliRunner

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.printing.columns import selector_text
from moorage.cli.api.kinds import find, of_object
from moorage.cli.app import app
from moorage.cli.commands.evaluate import evaluate
from moorage.conformance.operations import OPERATIONS
from moorage.insight.explain.wording import words as told_of
from moorage_schemas.placement import PlacementCondition, PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import TargetTainted

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = "cluster.open-cluster-management.io"
API = f"/apis/{GROUP}"
CLUSTERS = f"{API}/v1/managedclusters"
SETS = f"{API}/v1beta2/managedclustersets"
BINDINGS = f"{API}/v1beta2/namespaces/shop/managedclustersetbindings"
PLACED = f"{API}/v1beta1/namespaces/shop/placements"
DECISIONS = f"{API}/v1beta1/namespaces/shop/placementdecisions"
SET_LABEL = f"{GROUP}/clusterset"
OF = f"{GROUP}/placement"
CALLED = f"managedcluster.{GROUP}/c1"


def put(gateway: FakeGateway, path: str, name: str, labels: Object | None = None, **parts: Any) -> None:
    namespace = path.partition("/namespaces/")[2].partition("/")[0]
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **({"labels": labels} if labels else {}),
    }
    gateway.put(f"{path}/{name}", {"metadata": metadata, **parts})


def condition(kind: str, value: str, **more: str) -> Object:
    return {"conditions": [{"type": kind, "status": value, **more}]}


def fleet(gateway: FakeGateway) -> None:
    """Two clusters in a set that is bound to a namespace, and a placement that has selected one of them."""
    available = condition("ManagedClusterConditionAvailable", "True")
    claims = [{"name": "region", "value": "north"}]
    spec = {"hubAcceptsClient": True, "managedClusterClientConfigs": [{"url": "https://c1:6443"}]}
    spec |= {"taints": [{"key": "gpu", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}]}
    held = {**available, "clusterClaims": claims, "allocatable": {"cpu": "4"}}
    put(gateway, CLUSTERS, "c1", {SET_LABEL: "s"}, spec=spec, status=held)
    put(gateway, CLUSTERS, "c2", {SET_LABEL: "lost"}, spec={})
    put(gateway, SETS, "s", spec={}, status=condition("ClusterSetEmpty", "False", message="1 ManagedClusters selected"))
    put(gateway, BINDINGS, "s", spec={"clusterSet": "s"}, status=condition("Bound", "True", reason="ClusterSetBound"))
    satisfied = condition("PlacementSatisfied", "True", reason="AllDecisionsScheduled", message="fine")
    wants = {
        "numberOfClusters": 1,
        "predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}],
        "prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}, "weight": 3}]},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    put(gateway, PLACED, "web", spec=wants, status={**satisfied, "numberOfSelectedClusters": 1})
    decisions = {"decisions": [{"clusterName": "c1", "reason": ""}]}
    put(gateway, DECISIONS, "web-decision-1", {OF: "web", f"{GROUP}/decision-group-index": "0"}, status=decisions)
    decided = {
        "decidedTime": "2026-01-01T00:00:00Z",
        "targetsConsidered": 2,
        "filters": [{"filter": "Predicate", "reason": "no match", "count": 1, "targets": ["c2"]}],
        "scores": [{"target": "c1", "total": 300, "scores": {"Steady": 300}}],
    }
    own = "/apis/moorage.io/v1alpha1/namespaces/shop/workloadplacements"
    put(gateway, own, "placement:web", status=decided)


# taint


@pytest.mark.parametrize("words", [("managedcluster", "c1"), ("ManagedCluster", "c1"), ("mcl/c1",)])
def test_managed_clusters_are_tainted_with_their_effects(
    gateway: FakeGateway, run: Run, words: tuple[str, ...]
) -> None:
    put(gateway, CLUSTERS, "c1", spec={})
    for effect in ("NoSelect", "PreferNoSelect", "NoSelectIfNew"):
        assert said(run("taint", *words, f"key=value:{effect}")) == (0, f"{CALLED} tainted\n", "")
    taints = gateway.objects[f"{CLUSTERS}/c1"]["spec"]["taints"]
    assert [one["effect"] for one in taints] == ["NoSelect", "PreferNoSelect", "NoSelectIfNew"]
    assert said(run("taint", *words, "key-")) == (0, f"{CALLED} untainted\n", "")
    code, _, err = said(run("taint", *words, "key:NoSchedule"))
    assert (code, err) == (1, "error: invalid taint effect: NoSchedule, unsupported taint effect\n")


def test_managed_clusters_are_not_cordoned(gateway: FakeGateway, run: Run) -> None:
    put(gateway, CLUSTERS, "c1", spec={})
    assert said(run("cordon", "managedcluster", "c1")) == said(run("cordon", "managedcluster/c1"))
    code, _, err = said(run("cordon", "managedcluster/c1"))
    assert (code, "moorage taint managedcluster NAME key:NoSelect" in err) == (2, True)
    assert gateway.requests == []


def test_a_condition_of_a_managed_cluster_is_reported(gateway: FakeGateway, run: Run) -> None:
    done = said(run("report", "managedcluster/c1", "ManagedClusterConditionAvailable=False"))
    assert done == (0, "managedcluster/c1 reported ManagedClusterConditionAvailable=False\n", "")
    assert gateway.events[0]["data"]["target"] == {"kind": "ManagedCluster", "name": "c1"}


# get and describe


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ("managedclusters",),
            [
                ["NAME", "HUB", "ACCEPTED", "MANAGED", "CLUSTER", "URLS", "JOINED", "AVAILABLE", "AGE"],
                ["c1", "true", "https://c1:6443", "<none>", "True", "<unknown>"],
                ["c2", "false", "<none>", "<none>", "Unknown", "<unknown>"],
            ],
        ),
        (("mclsets",), [["NAME", "EMPTY", "AGE"], ["s", "False", "<unknown>"]]),
        (
            ("managedclustersetbindings", "-n", "shop"),
            [["NAME", "CLUSTER", "SET", "BOUND", "AGE"], ["s", "s", "True", "<unknown>"]],
        ),
        (
            ("placements", "-n", "shop"),
            [["NAME", "SUCCEEDED", "REASON", "SELECTEDCLUSTERS"], ["web", "True", "AllDecisionsScheduled", "1"]],
        ),
        (
            ("pd", "-n", "shop"),
            [["NAME", "PLACEMENT", "CLUSTERS", "GROUP"], ["web-decision-1", "web", "1", "0"]],
        ),
    ],
)
def test_tables_are_those_that_users_know(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], lines: list[list[str]]
) -> None:
    fleet(gateway)
    code, out, _ = said(run("get", *words))
    found = [[word for word in line.split() if word != "<invalid>"] for line in out.splitlines()]
    assert (code, found) == (0, lines)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("managedcluster", "c1"), ["Cluster sets:   s", "gpu:NoSelect", "region", "Selected by (1):", "shop", "web"]),
        (("managedcluster", "c2"), ["Missing set:    lost: no exclusive set of this name exists", "Selected by (0):"]),
        (
            ("mclset", "s"),
            ["Selector:       ExclusiveClusterSetLabel", "Clusters (1):", "c1", "True", "Bound to:       shop"],
        ),
        (("mclsetbinding", "s", "-n", "shop"), ["Bound:          True (ClusterSetBound)", "Placements:     web"]),
        (
            ("placement", "web", "-n", "shop"),
            [
                "Clusters:       1",
                "labels a=b",
                "Steady 3",
                "mode Additive",
                "gpu op=Exists",
                "AllDecisionsScheduled",
                "Selected (1):",
                "web-decision-1",
                "Predicate",
                "Steady 300",
            ],
        ),
        (("placementdecision", "web-decision-1", "-n", "shop"), ["Placement:      web", "Clusters (1):", "c1"]),
    ],
)
def test_describe_tells_what_is_selected_and_by_whom(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], told: list[str]
) -> None:
    fleet(gateway)
    code, out, err = said(run("describe", *words))
    assert (code, err) == (0, "")
    for text in told:
        assert text in out


def test_describe_of_add_ons_and_scores(gateway: FakeGateway, run: Run) -> None:
    add_ons = "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/c1/managedclusteraddons"
    put(gateway, add_ons, "meter", status=condition("Available", "Unknown", reason="ManagedClusterAddOnLeaseNotFound"))
    out = said(run("describe", "managedclusteraddon", "meter", "-n", "c1"))[1]
    assert "Available:      Unknown (ManagedClusterAddOnLeaseNotFound)" in out
    assert "Lease:          none" in out
    leases = "/apis/coordination.k8s.io/v1/namespaces/c1/leases"
    put(gateway, leases, "meter", spec={"renewTime": "2026-01-01T00:00:00Z"})
    assert "Lease renewed:  2026-01-01T00:00:00Z (" in said(run("describe", "mca/meter", "-n", "c1"))[1]
    scores = f"{API}/v1alpha1/namespaces/c1/addonplacementscores"
    put(gateway, scores, "own", status={"scores": [{"name": "cpu", "value": -3}]})
    out = said(run("describe", "addonplacementscore", "own", "-n", "c1"))[1]
    assert "Valid until:    no limit" in out
    assert "cpu" in out
    assert "-3" in out


def test_selectors_in_one_line() -> None:
    wishes = [
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "b", "operator": "NotIn", "values": ["z"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    shown = selector_text({"matchLabels": {"m": "n"}, "matchExpressions": wishes})
    assert shown == "m=n,a in (x,y),b notin (z),c,!d"
    assert selector_text({}) == "<all>"


# apply


def decision(*clusters: str) -> str:
    said_of = [{"clusterName": one, "reason": ""} for one in clusters]
    metadata = {"name": "web-a1b2c", "namespace": "shop", "labels": {OF: "web"}}
    head = {"apiVersion": f"{GROUP}/v1beta1", "kind": "PlacementDecision"}
    return yaml.safe_dump({**head, "metadata": metadata, "status": {"decisions": said_of}})


def test_a_decision_that_is_applied_is_the_servers_to_judge(gateway: FakeGateway, run: Run) -> None:
    gateway.refuse[f"POST {DECISIONS}"] = httpx.Response(200, json={"metadata": {"name": "web-decision-1"}})
    done = said(run("apply", "-f", "-", text=decision("c1")))
    assert done == (0, f"placementdecision.{GROUP}/web-a1b2c unchanged\n", "")
    assert "annotations" not in gateway.requests[-1][2]["metadata"]
    gateway.refuse[f"POST {DECISIONS}"] = status(422, "Invalid", "status.decisions: Invalid value")
    code, _, err = said(run("apply", "-f", "-", text=decision("c1")))
    assert (code, "status.decisions: Invalid value" in err) == (1, True)


def test_older_versions_are_applied_in_their_own(gateway: FakeGateway, run: Run) -> None:
    document = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Placement", "metadata": {"name": "p"}, "spec": {}}
    done = said(run("apply", "-f", "-", text=json.dumps(document)))
    assert done == (0, f"placement.{GROUP}/p created\n", "")
    assert gateway.requests[-1][1] == f"{API}/v1alpha1/namespaces/default/placements/p"


@pytest.mark.parametrize(
    ("word", "api_version"),
    [
        ("placements", "v1beta1"),
        ("placements.cluster.open-cluster-management.io", "v1beta1"),
        ("placements.v1alpha1", "v1alpha1"),
        ("placement.v1alpha1.cluster.open-cluster-management.io", "v1alpha1"),
        ("managedclustersets.v1beta1", "v1beta1"),
    ],
)
def test_words_name_versions(word: str, api_version: str) -> None:
    assert find(word).api_version == f"{GROUP}/{api_version}"


def test_the_old_name_of_the_view_is_the_new_kinds() -> None:
    assert find("placements").kind == "Placement"
    for word in ("wp", "pl", "workloadplacements", "WorkloadPlacement"):
        assert find(word).api_version == "moorage.io/v1alpha1"
    found = of_object(f"{GROUP}/v1alpha1", "PlacementDecision")
    assert isinstance(found, ServedKind)
    assert found.read_only
    assert of_object("moorage.io/v1alpha1", "WorkloadPlacement") is None


def test_decisions_are_told_in_words() -> None:
    owner = WorkloadRef(kind="Placement", namespace="shop", name="web")
    page = WorkloadRef(kind="PlacementDecision", namespace="shop", name="web-decision-1")
    whose = {"owner": owner, "owner_uid": "u", "generation": 2, "decided_time": NOW, "state": PlacementState.PLACED}
    names = tuple(f"c{number}" for number in range(9))
    event = WorkloadPlaced(workload=page, uid="p", clusters=names, added=names, removed=("d",), **whose)
    assert told_of("", event) == (
        "placementdecision/web-decision-1 (shop) has 9 clusters: +c0 +c1 +c2 +c3 +c4 +c5 +c6 +c7, and 2 more"
    )
    event = WorkloadPlaced(workload=page, uid="p", clusters=("a",), removed=("b",), **whose)
    assert told_of("", event) == "placementdecision/web-decision-1 (shop) has 1 cluster: -b"
    satisfied = PlacementCondition(type="PlacementSatisfied", status="True", last_transition_time=NOW)
    event = WorkloadPlaced(
        workload=owner, uid="u", selected=3, conditions=(satisfied,), reason="AllDecisionsScheduled", **whose
    )
    assert told_of("", event) == "placement/web (shop) selects 3 clusters  (AllDecisionsScheduled)"
    target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1")
    tainted = TargetTainted(target=target, generation=1, labels={"addon": "available"})
    assert told_of("", tainted) == "managedcluster/c1 has no taints; the system reports addon=available"


def test_the_help_of_eval_names_every_operation() -> None:
    told = (evaluate.__doc__ or "").replace(",", " ").replace(".", " ").replace(";", " ").split()
    assert set(OPERATIONS) <= set(told)
    assert "ocm_schedule" in CliRunner().invoke(app, ["eval", "--help"]).output
