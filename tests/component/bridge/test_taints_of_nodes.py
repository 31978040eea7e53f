"""Which taints a bridge writes to a node, and which it leaves alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage.bridge.kubernetes.node_acts import taints_patch
from moorage.bridge.kubernetes.nodes import SeenNode
from moorage.bridge.ownership import TAINTS_ANNOTATION, foreign_taints
from moorage_schemas.taint import TaintOrigin, TaintRecord

_AT = datetime(2026, 1, 1, tzinfo=UTC)
_WRITTEN = "2026-01-01T00:00:00Z"
_NOT_READY = "node.kubernetes.io/not-ready"


def _node(*taints: dict[str, Any], own: list[tuple[str, str]] | str = "") -> dict[str, Any]:
    noted = own if isinstance(own, str) else json.dumps([{"key": key, "effect": effect} for key, effect in own])
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "uid": "u1",
            "resourceVersion": "7",
            "annotations": {TAINTS_ANNOTATION: noted} if noted else {},
        },
        "spec": {"taints": list(taints)},
    }


def _taint(key: str, effect: str = "NoSchedule", value: str = "", time: str = "") -> dict[str, Any]:
    return {
        "key": key,
        "effect": effect,
        **({"value": value} if value else {}),
        **({"timeAdded": time} if time else {}),
    }


def _record(key: str, effect: str = "NoSchedule", value: str = "") -> TaintRecord:
    return TaintRecord(key=key, effect=effect, value=value, time_added=_AT, origins=(TaintOrigin.CONDITION,))


def _patched(node: dict[str, Any], *wanted: TaintRecord) -> list[dict[str, Any]] | None:
    seen = SeenNode.of(node)
    patch = taints_patch(seen, wanted, managed=seen.managed_taints)
    if patch is None:
        return None
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["metadata"]["uid"] == "u1"
    changed = {
        **node,
        "metadata": {**node["metadata"], "annotations": patch["metadata"]["annotations"]},
        "spec": patch["spec"],
    }
    again = SeenNode.of(changed)
    assert taints_patch(again, wanted, managed=again.managed_taints) is None, "it is made once"
    return list(patch["spec"]["taints"])


def test_a_new_taint_follows_those_of_others() -> None:
    theirs = _taint("a", value="1")
    assert _patched(_node(theirs), _record("x")) == [theirs, _taint("x", time=_WRITTEN)]


def test_what_is_there_is_not_written_again() -> None:
    assert _patched(_node(_taint("x", time=_WRITTEN), own=[("x", "NoSchedule")]), _record("x")) is None
    assert _patched(_node(_taint("a"))) is None


def test_own_taints_go_and_those_of_others_stay() -> None:
    theirs = _taint("a")
    assert _patched(_node(_taint("x", time=_WRITTEN), theirs, own=[("x", "NoSchedule")])) == [theirs]


def test_one_that_somebody_else_has_set_is_theirs() -> None:
    """The node lifecycle controller may be faster, and removes what it has set itself."""
    theirs = _taint(_NOT_READY, time="2026-01-01T00:00:07Z")
    assert _patched(_node(theirs), _record(_NOT_READY)) is None
    assert _patched(_node(theirs)) is None


def test_what_admission_gives_to_a_new_node_is_taken_over() -> None:
    given = _taint(_NOT_READY)
    assert _patched(_node(given)) == []
    assert _patched(_node(given), _record(_NOT_READY)) == [_taint(_NOT_READY, time=_WRITTEN)]


def test_a_changed_value_is_set_right() -> None:
    node = _node(_taint("x", value="2", time=_WRITTEN), own=[("x", "NoSchedule")])
    assert _patched(node, _record("x", value="1")) == [_taint("x", value="1", time=_WRITTEN)]


def test_one_that_somebody_removed_comes_back() -> None:
    assert _patched(_node(own=[("x", "NoSchedule")]), _record("x")) == [_taint("x", time=_WRITTEN)]


@pytest.mark.parametrize("note", ["{", '"x"', "[1]", '[{"effect":"NoSchedule"}]'])
def test_a_note_that_cannot_be_read_owns_nothing(note: str) -> None:
    theirs = _taint("a")
    assert SeenNode.of(_node(theirs, own=note)).managed_taints.isdisjoint({("a", "NoSchedule")})


def test_what_is_mirrored_is_the_wishes_of_others() -> None:
    theirs = _taint("a", effect="NoExecute", value="v")
    node = _node(theirs, _taint("x"), _taint(_NOT_READY, time=_WRITTEN), own=[("x", "NoSchedule")])
    assert foreign_taints(node) == [theirs]
