"""A leader that begins compares what it finds with the object log, while it is written to already."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from moorage.apiserver.kinds.placement import decided
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.derivation import Derivation
from moorage.apiserver.storage.object_log import Emission, LoggedRecord
from moorage.apiserver.storage.store import Store
from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import PLACEMENTS, RESOURCES

NAMES = ("a", "b", "c")


def declared(name: str, version: int = 1, uid: str = "first") -> ResourceDeclared:
    metadata = {"name": name, "namespace": "default", "uid": f"{uid}-{name}"}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"version": str(version)}}
    return ResourceDeclared(object=document, version=version)


def of(name: str) -> ObjectId:
    return ObjectId("ConfigMap", "default", name)


def folded(derivation: Derivation, name: str, event: ResourceDeclared) -> None:
    meta = Meta(id=name, source="test", type=RESOURCES.event_type)
    derivation.fold([Input(RESOURCES, 0, 0, of(name).key, event, meta)])


def written(derivation: Derivation, name: str, event: ResourceDeclared) -> list[ObjectId]:
    return list(derivation.write(RESOURCES, of(name).key, event))


def shown(changes: Sequence[Emission], names: Sequence[str]) -> list[str]:
    """The names of the objects that changes show, in order, without those of others."""
    return [change.object_id.name for change in changes if change.object_id.name in names]


def applied(store: Store, changes: Sequence[Emission]) -> None:
    store.apply(
        LoggedRecord(store.version + number, change.object_id.key, change.value)
        for number, change in enumerate(changes)
    )


def test_objects_that_are_created_while_all_are_compared_are_appended_once() -> None:
    store = Store()
    derivation = Derivation(store)
    derivation.begin()
    touched = [one for name in NAMES for one in written(derivation, name, declared(name))]
    changes = derivation.take(touched)
    assert shown(changes, NAMES) == list(NAMES)
    applied(store, changes)
    assert derivation.take() == []


def test_an_object_that_is_created_anew_while_all_are_compared_goes_once() -> None:
    store = Store()
    before = Derivation(store)
    before.begin()
    applied(store, before.take(written(before, "a", declared("a"))))
    after = Derivation(store)
    folded(after, "a", declared("a"))
    after.begin()
    touched = written(after, "a", declared("a", uid="second"))
    changes = after.take(touched)
    values = [change.json is None for change in changes if change.object_id == of("a")]
    assert values == [True, False]
    applied(store, changes)
    assert after.take() == []


@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_an_object_of_a_new_record_is_appended_once_however_much_is_compared_at_once(at_once: int) -> None:
    store = Store()
    derivation = Derivation(store)
    folded(derivation, "a", declared("a"))
    derivation.begin()
    folded(derivation, "b", declared("b"))
    touched = written(derivation, "c", declared("c"))
    found: list[str] = []
    while touched or derivation.due:
        changes = derivation.take(touched, at_once=at_once)
        found += shown(changes, NAMES)
        applied(store, changes)
        touched = []
    assert sorted(found) == list(NAMES)


def page(number: int, clusters: Sequence[str] | None) -> Input:
    """Placement's record of a page of the placement `all`. None for its tombstone."""
    owner = WorkloadRef(kind="Placement", namespace="default", name="all")
    workload = WorkloadRef(kind="PlacementDecision", namespace="default", name=f"all-decision-{number}")
    event = WorkloadPlaced(
        workload=workload,
        uid="u",
        owner=owner,
        owner_uid="u",
        generation=1,
        state=PlacementState.PLACED,
        decided_time=datetime(2026, 1, 1, tzinfo=UTC),
        clusters=tuple(clusters or ()),
    )
    meta = Meta(id=f"p{number}", source="test", type=PLACEMENTS.event_type)
    return Input(PLACEMENTS, 0, 0, workload.key, None if clusters is None else event, meta)


@pytest.mark.parametrize(
    "pages",
    [
        [(1, ["a", "b", "c"]), (2, ["d"])],  # one more: c, and d moves on
        [(1, ["b", "d"]), (2, None)],  # one fewer, and the second page goes
        [(2, ["b", "c"]), (1, ["d"])],  # they exchange clusters, as decision groups may
    ],
)
def test_a_cluster_that_moves_is_on_a_page_after_every_change(pages: list[tuple[int, list[str] | None]]) -> None:
    store = Store()
    derivation = Derivation(store)
    derivation.fold([page(1, ["b", "c"]), page(2, ["d"])] if len(pages[0][1] or ()) < 3 else [page(1, ["a", "b", "d"])])
    derivation.begin()
    applied(store, derivation.take())
    before = on_pages(store)
    derivation.fold([page(number, clusters) for number, clusters in pages])
    changes = derivation.take()
    kept = before & {cluster for _, clusters in pages for cluster in clusters or ()}
    assert kept
    for change in changes:
        applied(store, [change])
        assert kept <= on_pages(store), change.object_id
    assert derivation.take() == []
    assert on_pages(store) == {cluster for _, clusters in pages for cluster in clusters or ()}


def on_pages(store: Store) -> set[str]:
    """The clusters on all pages."""
    shown_pages = (store.get(ObjectId("PlacementDecision", "default", f"all-decision-{number}")) for number in (1, 2))
    return {cluster for one in shown_pages if one is not None for cluster in decided(one.document)}
