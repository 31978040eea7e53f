"""Whose the conditions of a node are."""

from __future__ import annotations

from typing import Any

from moorage.bridges.engine.seen_target import own_conditions
from moorage.bridges.kube.client import FIELD_MANAGER


def node(*entries: tuple[str, str, dict[str, list[str]]]) -> dict[str, Any]:
    """A node whose conditions have owners: manager, subresource, and the fields of each type."""
    return {
        "metadata": {
            "managedFields": [
                {
                    "manager": manager,
                    "subresource": subresource,
                    "fieldsV1": {
                        "f:status": {
                            "f:conditions": {
                                f'k:{{"type":"{type_}"}}': {".": {}, **{f"f:{field}": {} for field in fields}}
                                for type_, fields in types.items()
                            }
                        }
                    },
                }
                for manager, subresource, types in entries
            ]
        }
    }


ALL = ["lastTransitionTime", "message", "reason", "status", "type"]


def test_a_condition_is_the_bridges_own_if_it_has_set_its_status() -> None:
    found = node((FIELD_MANAGER, "status", {"Ready": ALL, "Disk": ALL}), ("kubelet", "status", {"PIDPressure": ALL}))
    assert own_conditions(found) == {"Ready", "Disk"}


def test_a_condition_whose_status_a_kubelet_has_set_since_is_the_kubelets() -> None:
    found = node(
        (FIELD_MANAGER, "status", {"Ready": ["type", "message"]}),
        ("kubelet", "status", {"Ready": ["status", "reason", "lastTransitionTime"]}),
    )
    assert own_conditions(found) == frozenset()


def test_what_a_bridge_sets_outside_of_the_status_is_no_condition() -> None:
    assert own_conditions(node((FIELD_MANAGER, "", {"Ready": ALL}))) == frozenset()
