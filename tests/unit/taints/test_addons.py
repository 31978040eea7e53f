"""The states of add-ons: by lease, by cluster, by their own conditions, and after records were lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.tables import table

from moorage.decide.taints.desired.addons import (
    ADD_ON,
    DEFAULT_GRACE,
    LEASE,
    AddOnLease,
    AddOns,
    Named,
    add_on_labels,
    is_reporting,
    lease_grace,
    of_managed_cluster,
)
from moorage.decide.taints.desired.taint_reconciliation import reconcile_taints
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import Mirrored, ResourceDeclared, resource_partition_key

T0 = datetime(2026, 1, 1, tzinfo=UTC)
MANAGER = "feature.open-cluster-management.io/addon-manager"
OTHER = "feature.open-cluster-management.io/addon-other"
AVAILABLE = "ManagedClusterConditionAvailable"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def declared(kind: str, name: str = "manager", *, uid: str = "u", version: int = 1, **parts: Any) -> ResourceDeclared:
    metadata = {"name": name, "namespace": "c1", "uid": uid, **parts.pop("metadata", {})}
    return ResourceDeclared(object={"kind": kind, "metadata": metadata, **parts}, version=version)


def lease(renewed: Any = "2026-01-01T00:00:00.000000Z", seconds: Any = None, **fields: Any) -> ResourceDeclared:
    spec = {"renewTime": renewed, "leaseDurationSeconds": seconds}
    return declared(LEASE, spec={name: value for name, value in spec.items() if value is not None}, **fields)


def known(*objects: ResourceDeclared) -> AddOns:
    found = AddOns()
    for one in objects:
        found.put(one.kind, one.name, one)
    return found


def customized(*conditions: Any, **fields: Any) -> ResourceDeclared:
    return declared(ADD_ON, status={"healthCheck": {"mode": "Customized"}, "conditions": list(conditions)}, **fields)


def labels(
    addons: AddOns,
    now: float = 0,
    *,
    before: dict[str, str] | None = None,
    reporting: bool | None = True,
    gone: tuple[Named, ...] = (),
) -> tuple[dict[str, str], float | None]:
    found = add_on_labels(before or {}, addons, reporting=reporting, now=at(now), removed=gone)
    return found.labels, None if found.due is None else (found.due - T0).total_seconds()


def test_a_mirrored_add_on_is_as_its_hub_says_and_follows_its_lease_where_the_hub_says_nothing() -> None:
    mirrored = Mirrored(source="bridge/ocm", resource_version="1")

    def add_on(*conditions: Any) -> ResourceDeclared:
        found = declared(ADD_ON, status={"conditions": list(conditions)})
        return found.model_copy(update={"mirrored": mirrored})

    stale = lease("2025-12-31T00:00:00Z")
    assert labels(known(add_on({"type": "Available", "status": "True"}), stale)) == ({MANAGER: "available"}, None)
    assert labels(known(add_on({"type": "Available", "status": "False"}))) == ({MANAGER: "unhealthy"}, None)
    assert labels(known(add_on({"type": "Available", "status": "Unknown"}))) == ({MANAGER: "unreachable"}, None)
    assert labels(known(add_on(), stale)) == ({MANAGER: "unhealthy"}, None)
    assert labels(known(add_on(), lease())) == ({MANAGER: "available"}, 300)
    own = declared(ADD_ON, status={"conditions": [{"type": "Available", "status": "True"}]})
    assert labels(known(own, stale)) == ({MANAGER: "unhealthy"}, None)


@pytest.mark.parametrize(
    ("now", "expected"),
    [(0, ("available", 300)), (299.999, ("available", 300)), (300, ("unhealthy", None)), (9999, ("unhealthy", None))],
)
def test_an_add_on_is_reporting_until_the_instant_at_which_its_lease_ends(
    now: float, expected: tuple[str, float | None]
) -> None:
    assert labels(known(declared(ADD_ON), lease()), now) == ({MANAGER: expected[0]}, expected[1])


def test_without_a_lease_or_with_its_cluster_away_it_is_unreachable() -> None:
    assert labels(known(declared(ADD_ON))) == ({MANAGER: "unreachable"}, None)
    assert labels(known(declared(ADD_ON), lease()), reporting=False) == ({MANAGER: "unreachable"}, None)
    assert labels(known(declared(ADD_ON), lease()), reporting=None) == ({}, None), "nothing was ever reported"
    kept = labels(AddOns(), before={MANAGER: "available"}, reporting=None, gone=((ADD_ON, "manager"),))
    assert kept == ({MANAGER: "available"}, None), "as upstream, which looks at such a cluster only once it reports"


def test_a_lease_of_no_add_on_is_no_label() -> None:
    assert labels(known(lease())) == ({}, None)
    assert labels(known(lease(), declared(ADD_ON, "other"))) == ({OTHER: "unreachable"}, None)


def test_the_first_lease_to_end_decides_when_to_look_and_labels_are_sorted() -> None:
    addons = known(
        declared(ADD_ON, "other"),
        declared(ADD_ON),
        lease(),
        lease("2026-01-01T01:00:20+01:00", 10, name="other"),
    )
    assert labels(addons) == ({MANAGER: "available", OTHER: "available"}, 70)
    assert list(labels(addons)[0]) == [MANAGER, OTHER]
    assert labels(addons, 70) == ({MANAGER: "available", OTHER: "unhealthy"}, 300)
    assert addons.first_end({MANAGER: "available"}) == at(300)
    assert addons.first_end({MANAGER: "unhealthy", OTHER: "unreachable"}) is None


@pytest.mark.parametrize("seconds", [None, 0, -5, True, "60", 1.5])
def test_a_lease_that_does_not_say_how_long_it_is_has_a_minute(seconds: Any) -> None:
    assert lease_grace(seconds) is None
    assert timedelta(minutes=5) == DEFAULT_GRACE
    assert labels(known(declared(ADD_ON), lease(seconds=seconds)))[1] == 300


@table(
    ("renewed", "seconds", "expected"),
    [
        (None, 60, None),
        ("", 60, None),
        ("soon", 60, None),
        ("2026-01-01T00:00:00", 60, None),
        (17, 60, None),
        ("2026-01-01T00:00:00Z", 1, at(5)),
        ("2026-01-01T00:00:00Z", 10**18, T0 + timedelta(days=36_500)),
        ("9999-12-31T00:00:00Z", 86400, datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_when_a_lease_ends_whatever_it_says(renewed: Any, seconds: Any, expected: datetime | None) -> None:
    found = AddOnLease.of(lease(renewed, seconds))
    assert found.expires == expected
    assert found.state(T0) == ("unhealthy" if expected is None else "available")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([{"type": "Available", "status": "True"}], "available"),
        ([{"type": "Degraded", "status": "True"}, {"type": "Available", "status": "False"}], "unhealthy"),
        ([{"type": "Available", "status": "Unknown"}], "unreachable"),
        ([{"type": "Available"}], "unreachable"),
        (["nonsense"], "unreachable"),
        ([], "unreachable"),
    ],
)
def test_an_add_on_that_looks_after_itself_is_taken_at_its_word(conditions: list[Any], expected: str) -> None:
    addons = known(customized(*conditions), lease())
    assert labels(addons, 9999) == ({MANAGER: expected}, None)
    assert labels(addons, reporting=False) == ({MANAGER: "unreachable"}, None)
    broken = declared(ADD_ON, status={"healthCheck": {"mode": "Customized"}, "conditions": 7})
    assert labels(known(broken)) == ({MANAGER: "unreachable"}, None)


def test_an_add_on_that_is_disabled_or_being_deleted_loses_its_label() -> None:
    addons = known(declared(ADD_ON), lease())
    before = labels(addons)[0]
    deleting = declared(ADD_ON, version=2, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    addons.put(ADD_ON, "manager", deleting)
    assert labels(addons, before=before, gone=((ADD_ON, "manager"),)) == ({}, None)
    addons.put(ADD_ON, "manager", declared(ADD_ON, version=3))
    assert labels(addons, before=before)[0] == before
    addons.put(ADD_ON, "manager", None)
    addons.put(ADD_ON, "manager", None)
    assert labels(addons, before=before, gone=((ADD_ON, "manager"),)) == ({}, None)
    addons.put(LEASE, "manager", None)
    assert not addons


def test_what_is_missing_leaves_a_label_and_what_was_taken_away_does_not() -> None:
    enabled = known(declared(ADD_ON))
    for state in ("available", "unhealthy", "unreachable"):
        assert labels(enabled, before={MANAGER: state}) == ({MANAGER: state}, None), "a lease may have been compacted"
        assert labels(AddOns(), before={MANAGER: state}) == ({MANAGER: state}, None), "and so may an add-on"
        assert labels(enabled, before={MANAGER: state}, gone=((LEASE, "manager"),))[0] == {MANAGER: "unreachable"}
    full = known(declared(ADD_ON), lease())
    assert labels(full, 400, before={MANAGER: "available"}, reporting=None) == ({MANAGER: "available"}, None)
    both = known(declared(ADD_ON), declared(ADD_ON, "other"))
    assert labels(both, before={MANAGER: "available"}, reporting=None) == ({MANAGER: "available"}, None)


def test_older_records_change_nothing_and_another_object_of_that_name_does() -> None:
    addons = known(declared(ADD_ON, version=5), lease(version=5))
    addons.put(LEASE, "manager", lease("2026-01-01T05:00:00Z", version=5))
    addons.put(ADD_ON, "manager", customized(version=4))
    assert labels(addons) == ({MANAGER: "available"}, 300)
    addons.put(LEASE, "manager", lease("2026-01-01T00:01:00Z", uid="v"))
    addons.put(ADD_ON, "manager", customized({"type": "Available", "status": "False"}, uid="v"))
    assert addons.leases["manager"].expires == at(360)
    assert labels(addons)[0] == {MANAGER: "unhealthy"}


def test_which_records_belong_to_a_managed_cluster() -> None:
    for kind in (ADD_ON, LEASE):
        key = f"{kind}/c1/manager"
        assert of_managed_cluster(key) == ("ManagedCluster/c1", kind, "manager")
        assert resource_partition_key(key) == "ManagedCluster/c1", "its owner sees them"
    assert of_managed_cluster("Pod/c1/manager") is None
    assert of_managed_cluster("ManagedCluster//c1") is None


def conditions(status: str) -> dict[str, ConditionChanged]:
    condition = ConditionChanged(
        target=TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1"),
        type=AVAILABLE,
        status=ConditionStatus(status),
        last_transition_time=T0,
        last_heartbeat_time=T0,
        generation=1,
    )
    return {AVAILABLE: condition}


def test_a_cluster_is_reporting_while_it_says_so() -> None:
    assert [is_reporting(conditions(status)) for status in ("True", "False", "Unknown")] == [True, True, False], (
        "the agent of an unavailable cluster reports"
    )
    assert is_reporting({}) is None


def test_labels_are_written_with_the_taints_only_when_they_change_and_of_managed_clusters_only() -> None:
    target = declared("ManagedCluster", "c1")
    addons = known(declared(ADD_ON), lease())
    first = reconcile_taints(None, target, conditions("True"), at(0), addons=addons)
    assert first.event is not None
    assert (first.event.labels, first.event.taints, first.event.generation) == ({MANAGER: "available"}, (), 1)
    assert first.due == at(300)
    addons.put(LEASE, "manager", lease("2026-01-01T00:01:00Z", version=2))
    again = reconcile_taints(first.event, target, conditions("True"), at(60), addons=addons)
    assert (again.event, again.due) == (None, at(360))
    assert reconcile_taints(first.event, target, conditions("True"), at(9999)).event is None, "who knows no add-ons"
    down = reconcile_taints(first.event, target, conditions("Unknown"), at(100), addons=addons)
    assert down.event is not None
    assert (down.event.labels, down.event.generation, down.due) == ({MANAGER: "unreachable"}, 2, None)
    assert len(down.event.taints) == 1
    shown = reconcile_taints(first.event, target, conditions("Unknown"), at(100))
    assert shown.event is not None
    assert shown.event.labels == {MANAGER: "available"}
    mark = {"deletionTimestamp": "2026-01-01T00:01:00Z"}
    leaving = declared("ManagedCluster", "c1", version=2, metadata=mark)
    for status in ("Unknown", "False"):
        kept = reconcile_taints(first.event, leaving, conditions(status), at(100), addons=addons)
        assert kept.event is None, "a cluster that is being deleted keeps its labels and taints"
    fresh = reconcile_taints(None, leaving, conditions("Unknown"), at(100), addons=addons)
    assert fresh.event is not None
    assert (fresh.event.labels, fresh.event.taints) == ({}, ())
    other = reconcile_taints(first.event, declared("ManagedCluster", "c1", uid="v"), {}, at(200), addons=addons)
    assert other.event is not None
    assert other.event.labels == {}, "another cluster of that name"
    node = reconcile_taints(None, declared("Node", "c1"), conditions("True"), at(0), addons=addons)
    assert node.event is not None
    assert node.event.labels == {}
