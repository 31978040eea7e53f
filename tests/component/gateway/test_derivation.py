"""A leader that begins compares what it finds with the object log, while it is written to already."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.derivation import Derivation
from moorage.apiserver.storage.object_log import Emission, LoggedRecord
from moorage.apiserver.storage.store import Store
from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import RESOURCES

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
