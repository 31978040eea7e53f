"""The gateway and the query worker keep few bytes for each unit of a fleet, and lose nothing by it.

The bytes are those of the objects that Python keeps, counted from the tables: neither the allocator nor other load has
an influence. The bounds are about a third above what was counted when they were set, in the comments.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import orjson
import pytest
from tests.component.gateway.double import Fixture, node, node_ref
from tests.component.gateway.test_clusters import in_cluster, key_in
from tests.support import fleet_units
from tests.support.tables import table

from moorage.apiserver.http.messages.selectors import selector
from moorage.apiserver.kinds.pod import KIND as POD
from moorage.apiserver.kinds.status.controllers import counts
from moorage.apiserver.storage.history import selectable
from moorage.apiserver.storage.tables import Tables
from moorage.runtime.wire.packing import Packer
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.topics import BINDINGS, CONDITIONS, PLACEMENTS, RESOURCES, WORKLOAD_CONDITIONS

UNITS = {unit.name: unit for unit in fleet_units.UNITS}
_SHARED = (type, Packer, Model)  # one for all rows: classes, dictionaries, and the few records that are kept decoded


def size(root: object) -> int:
    """The bytes of an object and of everything that it alone refers to. What several refer to counts once."""
    found, waiting, total = set[int](), [root], 0
    while waiting:
        one = waiting.pop()
        if id(one) in found or isinstance(one, _SHARED) or callable(one):
            continue
        found.add(id(one))
        total += sys.getsizeof(one)
        waiting.extend(inside(one))
    return total


def inside(one: object) -> Iterable[Any]:
    """What an object refers to."""
    if isinstance(one, dict):
        yield from itertools.chain(one.keys(), one.values())
    elif isinstance(one, list | tuple | AbstractSet | deque):
        yield from one
    else:
        yield from vars(one).values() if hasattr(one, "__dict__") else ()
        for name in itertools.chain.from_iterable(getattr(base, "__slots__", ()) for base in type(one).__mro__):
            if name != "_recent" and hasattr(one, name):
                yield getattr(one, name)


def bytes_each(place: fleet_units.Place, unit: fleet_units.Unit, count: int = 300) -> int:
    """The bytes of a unit in a state: what the second half of twice as many units adds."""
    sizes = []
    for first, last in ((0, count), (0, 2 * count)):
        state, fold, finish = place.make()
        fleet_units.fill(fold, place.topics, unit.context(2 * count))
        fleet_units.fill(fold, place.topics, itertools.chain.from_iterable(map(unit.records, range(first, last))))
        finish()
        sizes.append(size(state))
    return (sizes[1] - sizes[0]) // count


@pytest.mark.parametrize(
    ("unit", "bound"),
    [
        ("node", 4_900),  # 3,705
        ("condition", 550),  # 410
        ("workload", 2_560),  # 1,827
        ("eviction", 1_320),  # 993
        ("cluster", 2_260),  # 1,698
        ("managed cluster", 4_500),  # 3,382
        ("OCM placement", 1_960),  # 1,467
    ],
)
def test_the_gateway_keeps_few_bytes_for_a_unit(unit: str, bound: int) -> None:
    assert 100 < bytes_each(fleet_units.gateway(), UNITS[unit]) < bound


@pytest.mark.parametrize(("unit", "bound"), [("node", 4_900), ("workload", 2_560), ("eviction", 1_320)])
def test_a_unit_of_a_cluster_takes_no_more_than_one_of_the_home_fleet(unit: str, bound: int) -> None:
    def of_east(records: Iterable[fleet_units.UnitRecord]) -> Iterator[fleet_units.UnitRecord]:
        for record in records:
            yield record._replace(key=key_in(record, "east"), event=in_cluster(record.event, "east"))

    found = UNITS[unit]
    east = fleet_units.Unit(
        unit,
        found.what,
        lambda number: of_east(found.records(number)),
        lambda units: of_east(found.context(units)),
    )
    assert 100 < bytes_each(fleet_units.gateway(), east) < bound


@pytest.mark.parametrize(
    ("unit", "bound"),
    [("node", 9_850), ("workload", 3_340), ("eviction", 940)],  # 7,403, 2,505, 708
)
def test_the_query_worker_keeps_few_bytes_for_a_unit(unit: str, bound: int) -> None:
    assert 100 < bytes_each(fleet_units.query(), UNITS[unit]) < bound


def test_what_is_kept_of_a_record_gives_the_record_again() -> None:
    tables, records = Tables(), list[fleet_units.UnitRecord]()
    for name in ("node", "workload", "eviction", "cluster", "managed cluster", "OCM placement"):
        records += itertools.chain.from_iterable(map(UNITS[name].records, range(100)))
    records = [record for record in records if record.topic.short in tables.tables]
    for record in records:
        tables.apply(record.topic, record.key, record.event)
    for record in records:
        found: Any = tables.latest(record.topic.short, record.key)
        for name in type(record.event).model_fields:
            assert plain(getattr(found, name)) == plain(getattr(record.event, name)), (record.key, name)
        assert tables.document(record.topic.short, record.key) == record.event.model_dump(mode="json")


def plain(value: Any) -> Any:
    """A value without regard to whether its parts are models or rows."""
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    names = getattr(type(value), "model_fields", None) or getattr(value, "__struct_fields__", None)
    return {name: plain(getattr(value, name)) for name in names} if names else value


def test_the_records_of_a_group_are_told_apart() -> None:
    tables = Tables()

    def told(kind: str, status: ConditionStatus | None) -> None:
        times = {"last_transition_time": fleet_units.NOW, "last_heartbeat_time": fleet_units.NOW}
        head = {"target": node_ref("n1"), "type": kind, "generation": 1, **times}
        event = ConditionChanged.model_validate({**head, "status": status}) if status else None
        tables.apply(CONDITIONS, f"Node/n1|{kind}", event)

    for kind in ("Ready", "Full", "Slow"):
        told(kind, ConditionStatus.TRUE)
    told("Full", ConditionStatus.FALSE)
    told("Ready", None)
    told("Gone", None)
    assert {name: one.status for name, one in tables.conditions.group("Node/n1").items()} == {
        "Full": "False",
        "Slow": "True",
    }
    assert (tables.conditions.size(), tables.conditions.one("Node/n1", "Ready")) == (2, None)
    told("Full", None)
    told("Slow", None)
    assert not tables.conditions


OBJECTS: tuple[dict[str, Any], ...] = (
    {"metadata": {"name": "a", "namespace": "n", "labels": {"tier": "x"}}, "spec": {"nodeName": "n1"}, "status": {}},
    {"metadata": {"name": "b", "labels": None}, "status": {"phase": "Running"}, "spec": None},
    {"metadata": {"name": "c", "labels": {"tier": ""}}, "data": {"k": "v"}},
    {"metadata": {"name": "x", "labels": {"other": "x"}}, "spec": {"nodeName": "tier", "hostNetwork": True}},
)
PODS: tuple[dict[str, Any], ...] = tuple({"kind": "Pod", **document} for document in OBJECTS)
FIELDS = ("metadata.name", "metadata.namespace", *POD.field_selectors)
VALUES = ("a", "n1", "", "true", "false")


@table(
    ("labels", "fields"),
    [
        *((text, "") for text in ("tier", "!tier", "tier=x", "tier==x", "tier!=x", "tier=", "tier in (x,y)")),
        *((text, "") for text in ("tier notin (x)", "tier=x,other!=x", "other=x")),
        *(("", f"{name}{operator}{value}") for name in FIELDS for operator in ("=", "!=") for value in VALUES),
        ("tier=x", "metadata.name=a"),
    ],
)
def test_a_selector_says_the_same_of_an_object_its_json_and_what_the_history_keeps(labels: str, fields: str) -> None:
    chosen = selector(labels, fields, POD)
    by_object = [chosen(document) for document in PODS]
    assert [chosen.selects(orjson.dumps(document)) for document in PODS] == by_object
    assert [chosen.selects(selectable(document)) for document in PODS] == by_object


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ("spec.hostNetwork=true", ["x"]),
        ("spec.hostNetwork=false", ["a", "b", "c"]),
        ("spec.nodeName!=", ["a", "x"]),
        ("status.phase=Running,metadata.name=b", ["b"]),
    ],
)
def test_a_field_that_is_missing_has_a_text(fields: str, names: list[str]) -> None:
    chosen = selector("", fields, POD)
    assert [document["metadata"]["name"] for document in PODS if chosen(document)] == names


async def test_a_record_with_its_fields_in_another_order_is_no_change() -> None:
    gateway = Fixture()
    named = node()
    labelled = {**named, "metadata": {**named["metadata"], "labels": {"a": "1", "b": "2"}}}
    made = await gateway.ok("POST", "/api/v1/nodes", labelled)
    stored = gateway.store.tables.resources["Node//n1"]
    labels = dict(reversed(stored.object["metadata"]["labels"].items()))
    turned = {**stored.object, "metadata": {**stored.object["metadata"], "labels": labels}}
    count = gateway.store.history.count
    gateway.log.append(RESOURCES, "Node//n1", "Node/n1", stored.model_copy(update={"object": turned}))
    assert gateway.store.history.count == count
    assert await gateway.ok("GET", "/api/v1/nodes/n1") == made


async def test_what_a_controller_counts_follows_every_record() -> None:
    tables = Tables()
    for number in range(10):
        for record in UNITS["workload"].records(number):
            tables.apply(record.topic, record.key, record.event)
    owner = tables.resources["Deployment/team-0/app-0000000"]
    assert counts(owner, tables)[:3] == (10, 10, 10)
    pods = [record for number in range(10) for record in UNITS["workload"].records(number)]
    for record in pods:
        if record.topic is WORKLOAD_CONDITIONS and "00003" in record.key:
            tables.apply(record.topic, record.key, None)
        if record.topic is BINDINGS and "00004" in record.key:
            tables.apply(record.topic, record.key, None)
        if record.topic is PLACEMENTS and "00005" in record.key:
            tables.apply(record.topic, record.key, None)
    assert counts(owner, tables)[:3] == (9, 9, 7)
    newer = {**owner.object, "metadata": {**owner.object["metadata"], "uid": "another"}}
    tables.apply(RESOURCES, owner.key, owner.model_copy(update={"object": newer}))
    assert counts(tables.resources[owner.key], tables)[:3] == (0, 0, 0)
    tables.apply(RESOURCES, owner.key, owner)
    assert counts(tables.resources[owner.key], tables)[:3] == (9, 9, 7)
