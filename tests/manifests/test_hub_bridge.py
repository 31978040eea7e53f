"""What a bridge to a hub may do there."""

from __future__ import annotations

import pytest
from tests.support import manifests
from tests.support.manifests import Manifest

from moorage.bridge.ocm.bridge import LEASE_NAME, HubAct
from moorage.bridge.ocm.hub import FOLLOWED

ACCOUNT = {"kind": "ServiceAccount", "name": "moorage-bridge-ocm", "namespace": "moorage"}


@pytest.fixture(scope="module")
def found() -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized("bridge/ocm"))


def test_it_may_read_what_it_follows(found: dict[str, Manifest]) -> None:
    reads = {
        (rule["apiGroups"][0], rule["resources"][0])
        for rule in found["ClusterRole/moorage-bridge-ocm-mirror"]["rules"]
        if {"list", "watch"} <= set(rule["verbs"])
    }
    assert reads == {(one.path.split("/")[2], one.path.split("/")[-1]) for one in FOLLOWED}


def test_each_act_has_a_role_and_the_lease_is_that_of_the_bridge(found: dict[str, Manifest]) -> None:
    roles = {name.rpartition("-")[2] for name in found if name.startswith("ClusterRole/")}
    assert roles == {"mirror", *HubAct}
    (_, lease) = found["Role/moorage-bridge-ocm-election"]["rules"]
    assert lease["resourceNames"] == [LEASE_NAME]


def test_every_role_is_bound_to_the_bridge_alone(found: dict[str, Manifest]) -> None:
    for kind in ("ClusterRole", "Role"):
        names = {one["metadata"]["name"] for one in found.values() if one["kind"] == kind}
        bound = {one["metadata"]["name"]: one for one in found.values() if one["kind"] == f"{kind}Binding"}
        assert names == bound.keys()
        for name, one in bound.items():
            assert (one["roleRef"]["kind"], one["roleRef"]["name"], one["subjects"]) == (kind, name, [ACCOUNT])
