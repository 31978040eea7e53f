"""The roles of `moorage bridge karmada`: what it may do on a Karmada control plane."""

from __future__ import annotations

import pytest
import typer
from tests.support import manifests
from tests.support.manifests import Manifest

from moorage.bridge.karmada.bridge import LEASE_NAME, PlaneAct
from moorage.bridge.karmada.plane import FOLLOWED, LEASE, LEASES
from moorage.cli.commands import bridge as bridge_command

_USER = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "moorage-bridge"}


@pytest.fixture(scope="module")
def found() -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized("bridge/karmada"))


def test_it_may_read_what_it_mirrors(found: dict[str, Manifest]) -> None:
    readable = set()
    identity, *rules = found["ClusterRole/moorage-bridge-mirror"]["rules"]
    assert (identity["resources"], identity["resourceNames"], identity["verbs"]) == (
        ["namespaces"],
        ["kube-system"],
        ["get"],
    )
    for rule in rules:
        ((group,), (resource,)) = rule["apiGroups"], rule["resources"]
        assert rule["verbs"] == ["list", "watch"]
        readable.add((group, resource))
    paths = (one.path.split("/") for one in FOLLOWED if one.kind != LEASE)
    assert readable == {(path[2], path[-1]) for path in paths}
    heartbeats = found["Role/moorage-bridge-heartbeats"]
    assert f"/namespaces/{heartbeats['metadata']['namespace']}/" in LEASES


def test_each_act_has_a_role(found: dict[str, Manifest]) -> None:
    roles = {name.rpartition("/")[2] for name in found if name.startswith("ClusterRole/")}
    assert roles == {f"moorage-bridge-{name}" for name in ("mirror", *PlaneAct)}
    for act in PlaneAct:
        for rule in found[f"ClusterRole/moorage-bridge-{act}"]["rules"]:
            assert set(rule["verbs"]) <= {"get", "patch"}


def test_the_election_is_about_the_lease_of_the_command(found: dict[str, Manifest]) -> None:
    role = found["Role/moorage-bridge-election"]
    assert role["rules"][1]["resourceNames"] == [LEASE_NAME]
    command = typer.main.get_group(bridge_command.app).commands["karmada"]
    assert role["metadata"]["namespace"] == next(one.default for one in command.params if one.name == "lease_namespace")


def test_every_role_is_bound_to_one_user(found: dict[str, Manifest]) -> None:
    bindings = [one for name, one in found.items() if "RoleBinding/" in name]
    assert len(bindings) == sum(1 for name in found if name.startswith(("Role/", "ClusterRole/")))
    for one in bindings:
        assert one["subjects"] == [_USER]
        assert one["roleRef"]["name"] == one["metadata"]["name"]
