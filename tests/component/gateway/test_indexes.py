"""The tables of the gateway tell the indexes of kinds what changes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest
from tests.component.gateway.double import NOW, node, node_ref

from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.kinds.kind import Untyped, View
from moorage.apiserver.kinds.status import index, records
from moorage.apiserver.kinds.status.index import Groups, Index, ViewIndex
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.apiserver.storage import tables as module
from moorage.apiserver.storage.tables import Tables
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import CONDITIONS, RESOURCES, TIMERS

BELL = ObjectId("Bell", "", "ship")


class BellIndex(Index):
    """Keeps what it is told."""

    topics = ("timers", "conditions")

    def __init__(self) -> None:
        self.told: list[tuple[str, str, Any, Any, Model | None]] = []

    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        self.told.append((topic, key, before, after, records.latest(topic, key)))
        return (BELL,)


class Bell(Untyped):
    kind = "Bell"
    indexes = (BellIndex,)


class Whistle(Untyped):
    kind = "Whistle"
    indexes = (BellIndex,)


def timer(generation: int) -> SetTimer:
    return SetTimer(id="t", generation=generation, owner="eviction", deadline=NOW, target=node_ref("n1"))


def tables_of(monkeypatch: pytest.MonkeyPatch, *kinds: Untyped) -> Tables:
    monkeypatch.setattr(module, "discovered", lambda: kinds)
    return Tables()


def test_an_index_is_told_of_the_topics_that_it_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tables_of(monkeypatch, Bell())
    ready = ConditionChanged(
        target=node_ref("n1"),
        type="Ready",
        status=ConditionStatus.TRUE,
        last_transition_time=NOW,
        last_heartbeat_time=NOW,
        generation=1,
    )
    assert tables.apply(TIMERS, "t", timer(1)) == {BELL}
    assert tables.apply(TIMERS, "t", timer(2)) == {BELL}
    assert tables.apply(CONDITIONS, "Node/n1|Ready", ready) == {BELL}
    declared = ResourceDeclared(object=node(), version=1)
    assert tables.apply(RESOURCES, "Node//n1", declared) == {ObjectId("Node", "", "n1")}
    tables.apply(TIMERS, "t", None)
    tables.apply(CONDITIONS, "Node/n1|Ready", None)
    assert tables.index(BellIndex).told == [
        ("timers", "t", None, timer(1), timer(1)),
        ("timers", "t", timer(1), timer(2), timer(2)),
        ("conditions", "Node/n1|Ready", None, ready, ready),
        ("timers", "t", timer(2), None, None),
        ("conditions", "Node/n1|Ready", ready, None, None),
    ]
    assert {topic: size for topic, size in tables.sizes().items() if size} == {"resources": 1}


def test_an_index_that_two_kinds_name_exists_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tables_of(monkeypatch, Bell(), Whistle())
    tables.apply(TIMERS, "t", timer(1))
    assert len(tables.index(BellIndex).told) == 1


def test_an_index_that_no_kind_names_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError):
        tables_of(monkeypatch).index(BellIndex)


def test_an_index_of_a_topic_that_is_not_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BellIndex, "topics", ("timer-fired",))
    with pytest.raises(TypeError, match="BellIndex follows the topic timer-fired, which the gateway does not read"):
        tables_of(monkeypatch, Bell())


@pytest.mark.parametrize("folding", [module, records, index], ids=lambda one: str(one.__name__))
def test_what_folds_records_knows_no_kind_by_name(folding: ModuleType) -> None:
    names = {kind.kind for kind in kinds.discovered()}
    texts = {part.value for part in ast.walk(ast.parse(inspect.getsource(folding))) if isinstance(part, ast.Constant)}
    words = {word for text in texts if isinstance(text, str) and " " not in text for word in text.split("/")}
    assert words & names == set()


def test_a_record_of_another_model_is_a_tombstone() -> None:
    tables = Tables()
    tables.apply(TIMERS, "t", timer(1))
    tables.apply(TIMERS, "t", ResourceDeclared(object=node(), version=1))
    assert tables.timers == {}


class Owned(View):
    """Named after what the records of timers say, so that two records may show the same object."""

    kind = "Owned"
    made_from = "timers"

    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        assert isinstance(record, SetTimer)
        yield ObjectId(self.kind, "", record.subject or key)


def test_the_record_behind_a_view_is_the_last_one_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tables_of(monkeypatch, Owned())
    origins = tables.index(ViewIndex).origins
    one, other = ObjectId("Owned", "", "one"), ObjectId("Owned", "", "other")
    about = {name: timer(1).model_copy(update={"subject": name}) for name in ("one", "other")}
    assert tables.apply(TIMERS, "a", about["one"]) == {one}
    assert tables.apply(TIMERS, "b", about["one"]) == {one}
    assert {found: origins.get(found) for found in origins} == {one: "b"}
    assert tables.apply(TIMERS, "a", about["other"]) == {one, other}
    assert {found: origins.get(found) for found in origins} == {one: "b", other: "a"}, (
        "the record that has left an object does not take it from another"
    )
    assert tables.apply(TIMERS, "b", None) == {one}
    assert {found: origins.get(found) for found in origins} == {other: "a"}


def test_a_group_without_items_is_removed() -> None:
    groups = Groups()
    groups.add("g", "a")
    groups.add("g", "b")
    groups.discard("g", "a")
    groups.discard("g", "c")
    groups.discard("h", "a")
    assert groups == {"g": {"b"}}
    groups.discard("g", "b")
    assert groups == {}
