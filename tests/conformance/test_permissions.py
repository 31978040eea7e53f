"""Who may do what, and why, is answered as by a kube-apiserver (vectors/apiserver/permissions.jsonl.gz)."""

from __future__ import annotations

from tests.conformance import permissions
from tests.conformance.permission_worlds import Json, PermissionWorld
from tests.support.tables import table

RECORDED = permissions.read()


@table("recorded", RECORDED, ids=[one["seed"] for one in RECORDED])
async def test_answers_are_those_of_a_kube_apiserver(recorded: Json) -> None:
    world = PermissionWorld(recorded["seed"])
    own = await permissions.mine(world.seed)
    assert len(own) == len(recorded["answers"])
    for place, (expected, found) in enumerate(zip(recorded["answers"], own, strict=True)):
        assert permissions.is_same(world, place, expected, found), f"{place}:\n{expected}\n{found}"


def test_all_ends_of_a_question_are_recorded() -> None:
    answers = [answer for one in RECORDED for answer in one["answers"]]
    allowed = [one for one in answers if one.get("allowed")]
    assert len(allowed) > 100
    assert {one["reason"].partition('"')[0] for one in allowed} == {
        "RBAC: allowed by ClusterRoleBinding ",
        "RBAC: allowed by RoleBinding ",
    }
    assert sum("not found" in one.get("reason", "") for one in answers) > 20
    assert any("evaluationError" in one for one in answers)
    refused = [one["message"] for one in answers if one.get("code", 200) != 200]
    for said in (
        "is attempting to grant RBAC permissions not currently held",
        "resolution errors",
        "must have cluster-admin privileges to use the aggregationRule",
        'rolebindings.rbac.authorization.k8s.io "',
    ):
        assert any(said in message for message in refused), said
