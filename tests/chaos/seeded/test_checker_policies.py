"""What the checker says of TaintPolicies that are not followed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.chaos.seeded.checker import check
from tests.chaos.seeded.checker.policies import taint_policies_are_followed
from tests.chaos.seeded.edited_history import nothing, put, text
from tests.chaos.seeded.history import History
from tests.support.tables import table

BEGAN = 1_000_000.0
NODE = "Node/n"


def history(targets: dict[str, Any], status: str, taint_at: float | None, hold: str = "0s") -> History:
    """A node whose condition has had a status for a long time, a policy, and a taint that was added after a while."""
    made = nothing(settings={"services": ["taint-manager"]})
    node = {"kind": "Node", "metadata": {"name": "n", "uid": "u"}, "spec": {}}
    made = put(made, "resources", "Node//n", {"object": node, "version": 1}, at=BEGAN)
    terms = [{"conditionType": "Broken", "operator": "In", "statusValues": [value]} for value in ("True", "False")]
    spec = {
        "targets": {"kind": "Node", **targets},
        "addOnConditions": terms[:1],
        "removeOnConditions": terms[1:],
        "taints": [{"key": "broken", "effect": "NoSchedule"}],
        "addHold": hold,
        "removeHold": "0s",
    }
    policy = {"kind": "TaintPolicy", "metadata": {"name": "p"}, "spec": spec}
    made = put(made, "resources", "TaintPolicy//p", {"object": policy, "version": 1}, at=BEGAN)
    condition = {"targetUid": "u", "type": "Broken", "status": status, "generation": 1, "statusSince": text(BEGAN)}
    made = put(made, "conditions", f"{NODE}|Broken", condition, at=BEGAN + 1)
    taint = {"key": "broken", "value": "", "effect": "NoSchedule", "origins": ["policy"]}
    taints = [] if taint_at is None else [taint | {"timeAdded": text(BEGAN + taint_at)}]
    value = {"targetUid": "u", "generation": 1, "taints": taints}
    made = put(made, "taints", NODE, value, source="moorage/taint-manager", at=BEGAN + 2)
    return replace(made, ended=BEGAN + 10_000)


@table(
    ("targets", "status", "taint_at", "hold", "found"),
    [
        ({}, "True", 0.0, "0s", 0),
        ({}, "True", None, "0s", 1),
        ({}, "False", None, "0s", 0),
        ({}, "False", 0.0, "0s", 1),
        ({}, "Unknown", 0.0, "0s", 0),
        ({}, "Unknown", None, "0s", 0),
        ({}, "True", 5.0, "5s", 0),
        ({}, "True", 4.0, "5s", 1),
        ({"names": ["n"]}, "True", None, "0s", 1),
        ({"names": ["other"]}, "True", None, "0s", 0),
        ({"names": ["other"]}, "True", 0.0, "0s", 1),
        ({"exclude": ["n"]}, "True", 0.0, "0s", 1),
        ({"exclude": ["n"]}, "True", None, "0s", 0),
    ],
)
def test_a_policy_is_followed(
    targets: dict[str, Any], status: str, taint_at: float | None, hold: str, found: int
) -> None:
    assert len(check(history(targets, status, taint_at, hold), only=[taint_policies_are_followed])) == found
