"""Which taints and labels a bridge writes to a managed cluster, and which it leaves alone."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage.bridges.engine.seen_target import TAINTS_ANNOTATION
from moorage.bridges.engine.taint_lists import taints_patch
from moorage.bridges.ocm.cluster_acts import ClusterActs, changed_labels
from moorage.bridges.ocm.hub import SeenCluster, reduced
from moorage_schemas.taint import TaintOrigin, TaintRecord

_AT = datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
_UNREACHABLE = "cluster.open-cluster-management.io/unreachable"
_UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"
_FEATURE = "feature.open-cluster-management.io/addon-"


def _cluster(*taints: dict[str, Any], **fields: Any) -> dict[str, Any]:
    metadata = {"name": "c1", "uid": "u1", "resourceVersion": "7", **fields.pop("metadata", {})}
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": metadata,
        "spec": {"hubAcceptsClient": True, **fields.pop("spec", {}), "taints": list(taints)},
        **fields,
    }


def _taint(key: str, value: str = "", time: str | None = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"key": key, "effect": "NoSelect", **({"value": value} if value else {}), "timeAdded": time}


def _record(key: str, value: str = "") -> TaintRecord:
    return TaintRecord(key=key, effect="NoSelect", value=value, time_added=_AT, origins=(TaintOrigin.CONDITION,))


def _written(cluster: dict[str, Any], *wanted: TaintRecord) -> list[dict[str, Any]] | None:
    seen = SeenCluster.of(cluster)
    patch = taints_patch(seen, wanted, managed=seen.managed_taints, written=ClusterActs.as_written)
    if patch is None:
        return None
    assert (patch["metadata"]["resourceVersion"], patch["metadata"]["uid"]) == ("7", "u1")
    cluster["metadata"]["annotations"] = patch["metadata"]["annotations"]
    cluster["spec"]["taints"] = patch["spec"]["taints"]
    taints: list[dict[str, Any]] = patch["spec"]["taints"]
    return taints


def test_a_new_taint_is_written_without_a_time_and_gets_its_own_if_nobody_has_given_it_one() -> None:
    cluster = _cluster(_taint("example.com/theirs"))
    assert _written(cluster, _record("a")) == [_taint("example.com/theirs"), _taint("a", time=None)]
    assert _written(cluster, _record("a")) == [_taint("example.com/theirs"), _taint("a")]
    assert _written(cluster, _record("a")) is None


def test_the_time_that_the_webhook_has_given_a_taint_stays() -> None:
    cluster = _cluster()
    _written(cluster, _record("a"))
    cluster["spec"]["taints"][0]["timeAdded"] = "2026-01-01T00:00:03Z"
    assert _written(cluster, _record("a")) is None
    assert _written(cluster, _record("a"), _record("b")) == [
        _taint("a", time="2026-01-01T00:00:03Z"),
        _taint("b", time=None),
    ]


def test_a_taint_with_another_value_is_a_new_one() -> None:
    cluster = _cluster()
    _written(cluster, _record("a", "x"))
    cluster["spec"]["taints"][0]["timeAdded"] = "2026-01-01T00:00:03Z"
    assert _written(cluster, _record("a", "y")) == [_taint("a", "y", time=None)]


def test_taints_that_follow_from_the_state_are_replaced_whoever_has_set_them_and_those_of_people_stay() -> None:
    cluster = _cluster(_taint(_UNREACHABLE), _taint("example.com/theirs"))
    assert _written(cluster) == [_taint("example.com/theirs")]
    cluster = _cluster(_taint(_UNREACHABLE, "by-a-person"))
    assert _written(cluster, _record(_UNAVAILABLE)) == [
        _taint(_UNREACHABLE, "by-a-person"),
        _taint(_UNAVAILABLE, time=None),
    ]


def test_a_taint_that_somebody_else_has_set_is_not_taken_over() -> None:
    cluster = _cluster(_taint("a"))
    assert _written(cluster, _record("a")) is None
    assert TAINTS_ANNOTATION not in cluster["metadata"].get("annotations", {})


def test_labels_of_add_ons_are_set_and_removed_and_those_of_just_mirrored_add_ons_stay() -> None:
    labels = {f"{_FEATURE}a": "available", f"{_FEATURE}b": "available", f"{_FEATURE}c": "available", "region": "x"}
    cluster = SeenCluster.of(_cluster(metadata={"labels": labels}))
    wanted = {f"{_FEATURE}a": "unhealthy", f"{_FEATURE}d": "available"}
    assert changed_labels(cluster, wanted, ["c"]) == {
        f"{_FEATURE}a": "unhealthy",
        f"{_FEATURE}d": "available",
        f"{_FEATURE}b": None,
    }
    assert not changed_labels(cluster, cluster.add_on_labels, [])


def test_what_the_bridge_writes_does_not_come_back_as_somebodys_wish() -> None:
    cluster = _cluster(_taint("example.com/theirs"), metadata={"labels": {f"{_FEATURE}a": "available", "region": "x"}})
    _written(cluster, _record("a"), _record(_UNAVAILABLE))
    mirrored = reduced(cluster)
    assert mirrored["spec"]["taints"] == [_taint("example.com/theirs")]
    assert mirrored["metadata"]["labels"] == {"region": "x"}
    assert "annotations" not in mirrored["metadata"]


@pytest.mark.parametrize(("seconds", "expected"), [(None, 300), (0, 300), (20, 100)])
def test_a_cluster_is_silent_after_five_durations_of_its_lease(seconds: int | None, expected: float) -> None:
    accepted = {"conditions": [{"type": "HubAcceptedManagedCluster", "status": "True"}]}
    found = _cluster(spec={"leaseDurationSeconds": seconds}, status=accepted)
    assert SeenCluster.of(found).grace == expected


def test_a_cluster_that_was_never_accepted_is_never_silent() -> None:
    assert SeenCluster.of(_cluster()).grace == math.inf
