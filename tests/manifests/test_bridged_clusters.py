"""What a bridge may do in the cluster that it bridges, whichever kind that is, and where Moorage itself is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import pytest
import typer
from tests.manifests.test_base import of_kind
from tests.support import manifests
from tests.support.manifests import Manifest

from moorage.bridges.karmada import plane
from moorage.bridges.karmada import plane_bridge as karmada_bridge
from moorage.bridges.kubernetes import cluster
from moorage.bridges.kubernetes import cluster_bridge as kubernetes_bridge
from moorage.bridges.ocm import hub
from moorage.bridges.ocm import hub_bridge as ocm_bridge
from moorage.cli.commands import bridge as bridge_command

READS = {"get", "list", "watch"}

# Namespaces that are there before.
_OF_SYSTEM = {"kube-node-lease", "karmada-system", "karmada-cluster"}


@dataclass(frozen=True)
class Case:
    """A kind of cluster."""

    paths: Callable[[], list[str]]
    """Of the lists that its bridge reads."""

    acts: type[StrEnum]
    lease: str
    """The name of its Lease. Empty if the cluster's name in Moorage is in it."""


CASES = {
    "kubernetes": Case(
        lambda: [*(one.path for one in cluster.MIRRORED), cluster.LEASES],
        kubernetes_bridge.BridgeAct,
        "",
    ),
    "ocm": Case(lambda: [one.path for one in hub.FOLLOWED], ocm_bridge.HubAct, ocm_bridge.LEASE_NAME),
    "karmada": Case(lambda: [one.path for one in plane.FOLLOWED], karmada_bridge.PlaneAct, karmada_bridge.LEASE_NAME),
}


@pytest.fixture(scope="module", params=list(CASES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def reading(kind: str) -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized(f"bridge/{kind}"))


@pytest.fixture(scope="module")
def acting(kind: str) -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized(f"bridge/{kind}/acts"))


def roles_of(found: dict[str, Manifest]) -> list[Manifest]:
    return [*of_kind(found, "ClusterRole"), *of_kind(found, "Role")]


def short(role: Manifest) -> str:
    """What is at the end of the name of a role."""
    return str(role["metadata"]["name"]).rpartition("-")[2]


def test_it_may_read_what_it_follows_and_which_cluster_it_is(kind: str, reading: dict[str, Manifest]) -> None:
    rules = [
        (
            role["metadata"].get("namespace", ""),
            group,
            resource,
            frozenset(rule["verbs"]),
            *rule.get("resourceNames", ()),
        )
        for role in roles_of(reading)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    identity = ("", "", "namespaces", frozenset({"get"}), "kube-system")
    assert identity in rules
    followed = set()
    for path in CASES[kind].paths():
        parts = path.split("/")
        group, rest = ("", parts[3:]) if parts[1] == "api" else (parts[2], parts[4:])
        space = rest[1] if rest[0] == "namespaces" else ""
        # Leases are read singly, too, before somebody counts as silent.
        verbs = frozenset({"list", "watch", *(("get",) if rest[-1] == "leases" else ())})
        followed.add((space, group, rest[-1], verbs))
    assert set(rules) - {identity} == followed


def test_who_only_mirrors_may_only_read(reading: dict[str, Manifest]) -> None:
    assert {verb for role in roles_of(reading) for rule in role["rules"] for verb in rule["verbs"]} <= READS


def test_each_act_has_a_role_and_a_file(kind: str, acting: dict[str, Manifest]) -> None:
    acts = {str(act) for act in CASES[kind].acts}
    assert {short(role) for role in of_kind(acting, "ClusterRole")} == acts
    files = {one.stem for one in (manifests.KUBERNETES / "bridge" / kind / "acts").glob("*.yaml")}
    assert files == {*acts, "election", "kustomization"}


def test_the_election_is_about_the_lease_of_the_bridge(kind: str, acting: dict[str, Manifest]) -> None:
    (role,) = of_kind(acting, "Role")
    assert short(role) == "election"
    named = [(["create"], None), (["get", "update"], [CASES[kind].lease])]
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in role["rules"]] == (
        named if CASES[kind].lease else [(["create", "get", "update"], None)]
    )
    if kind == "karmada":
        command = typer.main.get_group(bridge_command.app).commands[kind]
        default = next(one.default for one in command.params if one.name == "lease_namespace")
        assert role["metadata"]["namespace"] == default


def test_each_rule_is_one_need(reading: dict[str, Manifest], acting: dict[str, Manifest]) -> None:
    for role in [*roles_of(reading), *roles_of(acting)]:
        rules = [
            (group, resource, verb, tuple(rule.get("resourceNames", ())))
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]
        assert len(set(rules)) == len(rules)
        assert all(len(rule["resources"]) == len(rule["apiGroups"]) == 1 for rule in role["rules"])
        assert "*" not in str(rules)


def test_every_role_is_bound_to_one_account_that_is_there(
    reading: dict[str, Manifest], acting: dict[str, Manifest]
) -> None:
    (account,) = of_kind(reading, "ServiceAccount")
    metadata = account["metadata"]
    assert account["automountServiceAccountToken"] is False
    subject = {"kind": "ServiceAccount", "name": metadata["name"], "namespace": metadata["namespace"]}
    for found in (reading, acting):
        roles = roles_of(found)
        assert len(roles) == sum(1 for one in found.values() if one["kind"].endswith("RoleBinding"))
        for role in roles:
            binding = found[f"{role['kind']}Binding/{role['metadata']['name']}"]
            assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
            assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (role["kind"], role["metadata"]["name"])
            assert binding["subjects"] == [subject]


def test_nothing_is_missing_in_a_cluster_without_moorage(
    reading: dict[str, Manifest], acting: dict[str, Manifest]
) -> None:
    made = {one["metadata"]["name"] for one in of_kind(reading, "Namespace")}
    spaces = {one["metadata"].get("namespace") for one in [*reading.values(), *acting.values()]}
    assert spaces - {None} <= made | _OF_SYSTEM


def test_a_cluster_that_is_also_a_hub_has_the_roles_of_both() -> None:
    found: dict[str, Manifest] = {}
    for folder in (*manifests.REMOTE["kubernetes"], *manifests.REMOTE["ocm"]):
        more = manifests.objects(manifests.kustomized(folder))
        assert found.keys() & more.keys() <= {f"Namespace/{manifests.NAMESPACE}"}
        found |= more
