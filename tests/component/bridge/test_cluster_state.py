"""What a bridge keeps of its cluster."""

from __future__ import annotations

from tests.component.bridge.cluster import node

from moorage.bridges.engine.seen_state import StateSink
from moorage.bridges.kubernetes.cluster import ClusterState


def test_an_object_that_was_replaced_while_nobody_watched_is_gone_first() -> None:
    found: list[str | None] = []

    def seen(_kind: str, key: str) -> None:
        known = state.object(key)
        found.append(known["metadata"]["uid"] if known is not None else None)

    state = ClusterState("", seen)
    sink = StateSink(state, "Node")
    for uid in ("first", "first", "second"):
        sink.replaced([{"apiVersion": "v1", "kind": "Node", **node("n1", uid=uid)}])
    assert found == ["first", "first", None, "second"]
    assert state.targets["n1"].uid == "second"
