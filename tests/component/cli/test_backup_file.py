"""Files of `moorage export --state`: each record comes back as it was, and each error names its document and field."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.cli.backup.declared_objects import DeclaredObjects
from moorage.cli.backup.file_check import InvalidFileError, check
from moorage.cli.backup.fleet_file import Begin, DocumentPlace, End, FileError, FileReader, FileWriter
from moorage.cli.backup.restore_plan import RestorePlan
from moorage.cli.backup.saved_record import SavedRecord, document_of, parsed, record_of, saved
from moorage.cli.backup.saved_topics import READERS, SAVED, WHOLE
from moorage.runtime.engine.journal import STEPS_HEADER
from moorage.runtime.wire import codec
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.eviction import GenerationFloor
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer
from moorage_schemas.times import parse_time
from moorage_schemas.topics import (
    CONDITION_REPORTS,
    GENERATION_FLOORS,
    RESOURCES,
    TAINTS,
    TIMERS,
    TOPICS,
    Topic,
    partition_of,
)

PARTITIONS = 3
NOW = parse_time("2026-01-01T12:00:00Z")
STAMP = 1_767_268_800_123


def tainted(name: str, offset: int, partition: int | None = None, topic: Topic = TAINTS) -> SavedRecord:
    """The record of a node's taints."""
    target = {"kind": "Node", "name": name}
    event = TargetTainted.model_validate({"target": target, "generation": 1 + offset})
    return record(topic, f"Node/{name}", event.model_dump_json(), offset, partition)


def record(topic: Topic, key: str, value: str | None, offset: int = 0, partition: int | None = None) -> SavedRecord:
    meta = Meta(id="1", source="test", type=topic.event_type, time=NOW, subject=key)
    place = partition_of(key, PARTITIONS) if partition is None else partition
    content = None if value is None else value.encode()
    return SavedRecord(topic, place, offset, STAMP, key.encode(), content, tuple(to_headers(meta)))


def begin(**changes: Any) -> bytes:
    given: dict[str, Any] = {"taken": "2026-01-01T12:00:00Z", "version": "1", "prefix": "moorage"}
    return Begin(**{**given, "partitions": PARTITIONS, "quiet": True, "secrets": False, **changes}).document()


def written(folder: Path, *documents: bytes, name: str = "fleet.yaml") -> Path:
    path = folder / name
    path.write_bytes(b"".join(documents))
    return path


def again(document: bytes) -> SavedRecord:
    found, data = parsed(document.rstrip(b"\n").split(b"\n")[1:])
    return record_of(found, data, PARTITIONS)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
HEADERS = st.lists(st.tuples(TEXT, st.binary(max_size=20)), max_size=6).map(tuple)


@given(
    topic=st.sampled_from(TOPICS),
    key=st.none() | st.binary(max_size=30),
    value=st.none() | st.binary(max_size=40) | TEXT.map(str.encode),
    headers=HEADERS,
    stamp=st.integers(min_value=0, max_value=253_402_300_799_999),
)
def test_any_record_comes_back_as_it_was(
    topic: Topic, key: bytes | None, value: bytes | None, headers: Any, stamp: int
) -> None:
    whole = SavedRecord(topic, 1, 7, stamp, key, value, headers)
    assert again(document_of(whole)) == whole


@given(name=TEXT, subject=st.sampled_from(["with", "without"]), extra=st.dictionaries(TEXT, TEXT, max_size=2))
def test_an_event_comes_back_and_any_reader_of_yaml_reads_the_same(
    name: str, subject: str, extra: dict[str, str]
) -> None:
    whole = record(TAINTS, f"Node/{name}", orjson.dumps({"target": {"name": name}, "more": extra}).decode(), 5, 2)
    if subject == "without":
        whole = whole._replace(headers=tuple(one for one in whole.headers if one[0] != "ce_subject"))
    document = document_of(whole)
    found = again(document)
    assert (found.key, found.headers, found.timestamp) == (whole.key, whole.headers, whole.timestamp)
    assert orjson.loads(found.value or b"") == orjson.loads(whole.value or b"")
    read = yaml.safe_load(document)
    assert read["key"] == f"Node/{name}"
    assert read["data"] == orjson.loads(whole.value or b"")
    assert read["place"] == [2, 5]


def test_a_document_that_was_edited_by_hand_may_be_any_yaml(tmp_path: Path) -> None:
    value = (tainted("n", 0).value or b"").decode()
    place = partition_of("Node/n", PARTITIONS)
    edited = f"""# by hand
---
topic: taints
key: Node/n
place: [{place}, 0]
time: 2026-01-01T12:00:00.123Z
headers:
  ce_id: "1"
  ce_source: test
  ce_time: "2026-01-01T12:00:00Z"
  ce_subject: ""
data:
  {value}
"""
    path = written(tmp_path, begin(), edited.encode(), End({"taints": 1}, {}).document())
    check(FileReader(path))
    assert record_of(*parsed(list(FileReader(path))[1][1]), PARTITIONS)._replace(value=None) == tainted(
        "n", 0
    )._replace(value=None)


def test_headers_that_name_offsets_are_not_exported() -> None:
    whole = tainted("n", 3)
    names = (codec.SOURCES_HEADER, codec.BEFORE_HEADER, STEPS_HEADER)
    full = whole._replace(headers=(*whole.headers, *((name, b"conditions=7") for name in names)))
    assert saved(TAINTS, full) == whole


WRONG: dict[str, tuple[Callable[[], list[bytes]], str]] = {
    "empty": (list, "fleet.yaml: empty"),
    "a manifest": (lambda: [b"kind: Node\n"], "document 1: kind: invalid value 'Node': expected FleetExport"),
    "another version": (
        lambda: [begin().replace(b"export.v1", b"export.v9")],
        "document 1: apiVersion: invalid value 'moorage.io/export.v9'",
    ),
    "no partitions": (
        lambda: [begin(partitions=0)],
        "document 1: partitions: invalid value 0: expected a whole number",
    ),
    "cut off": (lambda: [begin(), document_of(tainted("n", 0))], "FleetExportEnd: missing"),
    "a record is missing": (
        lambda: [begin(), End({"taints": 1}, {}).document()],
        "records.taints: invalid value 1: expected 0",
    ),
    "after the end": (
        lambda: [begin(), End({}, {}).document(), document_of(tainted("n", 0))],
        "document 3 (taints Node/n): document: comes after FleetExportEnd",
    ),
    "no yaml": (lambda: [begin(), b"---\ntopic: [\n"], "document 2: document: not YAML"),
    "a list": (lambda: [begin(), b"---\n- a\n"], "document 2: document: invalid value ['a']: expected a mapping"),
    "unknown topic": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b'"taints"', b'"stains"')],
        "document 2 (stains Node/n): topic: invalid value 'stains'",
    ),
    "a topic that is not exported": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b'"taints"', b'"audit"')],
        "(audit Node/n): topic: invalid value 'audit': expected a topic that is exported",
    ),
    "a field too many": (
        lambda: [begin(), document_of(tainted("n", 0)) + b"colour: 1\n"],
        "(taints Node/n): colour: unknown field",
    ),
    "no place": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b"place: [", b"place: [true, ")],
        "(taints Node/n): place: invalid value [True",
    ),
    "a partition too high": (
        lambda: [begin(), document_of(tainted("n", 0, 3))],
        "(taints Node/n): place: invalid partition 3: expected less than 3",
    ),
    "another partition than its key's": (
        lambda: [begin(), document_of(tainted("n", 0, (partition_of("Node/n", 3) + 1) % 3))],
        "(taints Node/n): key: invalid value 'Node/n': must be in partition",
    ),
    "another key than its event's": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b'key: "Node/n"', b'key: "Node/m"')],
        "(taints Node/m): key: invalid value 'Node/m': must be that of its event",
    ),
    "twice": (
        lambda: [begin(), document_of(tainted("n", 4)), document_of(tainted("n", 4))],
        "document 3 (taints Node/n): place: offset 4 is not after",
    ),
    "no time": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b'"2026-01-01T12:00:00.123Z"', b'"noon"')],
        "time: invalid value 'noon': expected a time",
    ),
    "a number as time": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b'"2026-01-01T12:00:00.123Z"', b"7")],
        "time: invalid value 7: expected a time",
    ),
    "no headers": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b'"ce_source":"test"', b'"x":"y"')],
        "(taints Node/n): headers.ce_source: missing",
    ),
    "a header that is a number": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b'"ce_source":"test"', b'"ce_source":1')],
        "(taints Node/n): headers.ce_source: invalid value 1: expected a text",
    ),
    "no event": (
        lambda: [begin(), document_of(tainted("n", 0)).split(b"data:")[0]],
        "(taints Node/n): data: missing",
    ),
    "an invalid event": (
        lambda: [begin(), document_of(tainted("n", 0)).replace(b'"generation":1', b'"generation":0')],
        "(taints Node/n): data.generation: invalid value '0'",
    ),
    "positions": (
        lambda: [begin(), End({}, {}).document().replace(b"positions: {}", b'positions: {"a":{"taints":{"x":1}}}')],
        "positions.a.taints: invalid value: expected offsets by partition",
    ),
}


@table("case", WRONG)
def test_an_error_names_document_and_field(case: str, tmp_path: Path) -> None:
    documents, expected = WRONG[case]
    with pytest.raises(InvalidFileError) as caught:
        check(FileReader(written(tmp_path, *documents())))
    assert expected in str(caught.value)


def test_all_errors_are_shown_up_to_a_limit(tmp_path: Path) -> None:
    wrong = [document_of(tainted("n", number)).replace(b'"generation"', b'"g"') for number in range(40)]
    with pytest.raises(InvalidFileError) as caught:
        check(FileReader(written(tmp_path, begin(), *wrong)))
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "more errors follow after the first 20"


@pytest.mark.parametrize("name", ["fleet.yaml", "fleet.yaml.gz", "fleet/"])
def test_a_file_is_whole_or_does_not_exist(tmp_path: Path, name: str) -> None:
    target = f"{tmp_path}/{name}"
    with FileWriter(target) as file:
        for part, document in (("begin", begin()), ("taints", document_of(tainted("n", 0)))):
            file.part(part)
            file.write(document)
        file.part("end")
        file.write(End({"taints": 1}, {}).document())
    assert check(FileReader(Path(target))).begin.partitions == PARTITIONS
    assert next(str(place) for place, _ in FileReader(Path(target))).endswith("document 1")
    files = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert not [one for one in files if one.endswith(".part")]
    if name.endswith(".gz"):
        assert gzip.decompress(Path(target).read_bytes()).startswith(b"---\n")
    elif name.endswith("/"):
        assert files == ["00-begin.yaml", "01-taints.yaml", "02-end.yaml"]
        with pytest.raises(FileError, match="not empty"), FileWriter(target):
            pass
    else:
        assert Path(target).stat().st_mode & 0o077 == 0, "others may not read it"
        with pytest.raises(ZeroDivisionError), FileWriter(target) as file:
            file.write(str(1 // 0).encode())
        assert Path(target).exists(), "the former file stays"
        assert len(list(tmp_path.iterdir())) == 1


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", written(tmp_path, b"no gzip", name="wrong.gz")):
        with pytest.raises(FileError, match=path.name):
            list(FileReader(path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"has no \*\.yaml"):
        list(FileReader(tmp_path / "empty"))
    assert str(DocumentPlace("a", 3)) == "a: document 3"


# Places.


def timer(id_: str, target: str, offset: int, *, partition: int, gone: bool = False) -> SavedRecord:
    event = SetTimer.model_validate(
        {"id": id_, "target": target_of(target), "owner": "eviction", "generation": 1, "deadline": NOW}
    )
    return record(TIMERS, id_, None if gone else event.model_dump_json(), offset, partition)


def target_of(name: str) -> dict[str, str]:
    return {"kind": "Node", "name": name}


def test_what_is_unprocessed_comes_last_and_each_group_continues_there() -> None:
    positions = {"eviction": {"taints": {0: 2, 1: 9, 2: 9}}, "webhooks.1": {"taints": {0: 1}}}
    plan = RestorePlan(positions, before=3, now=3)
    given_ = [tainted(f"n{number}", number, 0) for number in range(4)] + [tainted("m", 0, 1)]
    found = [one.record.offset for record_ in given_ if (one := plan.take(record_)) is not None]
    assert found == [0, 1, 0]
    assert [one.record.offset for one in plan.rest()] == [2, 3]
    assert plan.positions()["eviction"][TAINTS, 0] == 2
    assert plan.positions()["eviction"][TAINTS, 1] == 1
    assert plan.positions()["webhooks.1"] == {(TAINTS, 0): 1}, "it has no position in the others"


def test_another_number_of_partitions_places_each_record_by_its_key() -> None:
    plan = RestorePlan({"timer": {"timers": {0: 9, 1: 9, 2: 9}}}, before=3, now=5)
    moved = plan.take(timer("t1", "n1", 0, partition=1))
    assert moved is not None
    assert moved.partition == partition_of("Node/n1", 5)
    gone = plan.take(timer("t1", "n1", 5, partition=1, gone=True))
    assert gone is not None
    assert gone.partition == moved.partition, "where the record is that it deletes"
    assert plan.take(timer("t2", "n1", 6, partition=1, gone=True)) is None, "there is nothing to delete"
    declared = ResourceDeclared(object={"kind": "Node", "metadata": {"name": "n1"}}, version=1)
    node = plan.take(record(RESOURCES, "Node//n1", declared.model_dump_json(), 0, 0))
    assert node is None, "placement has no position, so it comes last"
    assert [one.partition for one in plan.rest()] == [moved.partition]
    report = record(CONDITION_REPORTS, "Node/n1", "{", 3)
    assert plan.take(report) is None
    assert [one.partition for one in plan.rest()] == [moved.partition], "anything that a third party has written"


def test_a_floor_of_generations_holds_for_each_of_other_partitions() -> None:
    plan = RestorePlan({}, before=3, now=2)
    for partition, generation in enumerate((4, 9, 2)):
        event = GenerationFloor(partition=partition, generation=generation)
        assert plan.take(record(GENERATION_FLOORS, str(partition), event.model_dump_json(), 0, partition)) is None
    floors = [codec.decode_table(GENERATION_FLOORS, one.record) for one in plan.rest()]
    assert floors == [(str(part), GenerationFloor(partition=part, generation=9)) for part in range(2)]


def test_every_topic_that_a_service_restores_from_or_processes_is_exported() -> None:
    assert {topic for topic in TOPICS if READERS[topic]} <= set(SAVED)
    assert {topic.short for topic in set(SAVED) - WHOLE} == {"condition-reports", "eviction-answers"}
    assert {topic.short for topic in set(TOPICS) - set(SAVED)} == {
        "audit",
        "clocks",
        "dead-letters",
        "journal",
        "objects",
    }


# Declared objects.


def declared(kind: str, name: str, offset: int, **given_: Any) -> SavedRecord:
    metadata = {"name": name, "uid": "u", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata |= given_.pop("metadata", {})
    api = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **given_.pop("object", {})}
    event = ResourceDeclared(object=api, version=1, **given_)
    return record(RESOURCES, event.key, event.model_dump_json(), offset)


def test_declared_objects_are_manifests_in_the_order_in_which_they_are_applied() -> None:
    found = DeclaredObjects(secrets=False)
    edits = [
        TaintWish(key="a", effect="NoExecute", value="v", present=True, generation=1, time=NOW),
        TaintWish(key="b", effect="NoSchedule", present=False, generation=2, time=NOW),
    ]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
    found.take(
        [
            declared("Pod", "p", 0, object={"spec": {"containers": []}, "status": {"phase": "Running"}}),
            declared("ReplicaSet", "r", 1, metadata={"ownerReferences": [owner]}),
            declared("Secret", "s", 2),
            declared("Node", "n", 3, wishes=edits, object={"status": {"allocatable": {"cpu": "1"}}}),
            declared("Widget", "w", 4, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            declared("Namespace", "x", 5),
            declared("Node", "east", 6, cluster="east"),
        ]
    )
    assert found.kinds == ["Namespace", "Secret", "Node", "Widget", "ReplicaSet", "Pod"]
    manifests = [yaml.safe_load(one) for kind in found.kinds for one in found.manifests(kind)]
    taint = {"key": "a", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T12:00:00Z"}
    assert manifests == [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [taint]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}},
    ]
    assert sum(found.left_out.values()) == 4


def test_the_rules_of_an_aggregated_role_are_not_declared() -> None:
    """They come from other roles. Applying older ones would be a conflict with the gateway, which owns them."""
    found = DeclaredObjects(secrets=False)
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    selects = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    found.take(
        [
            declared("ClusterRole", "one", 0, object={"rules": rules}),
            declared("ClusterRole", "sum", 1, object={"rules": rules, **selects}),
        ]
    )
    one, aggregated = (yaml.safe_load(manifest) for manifest in found.manifests("ClusterRole"))
    assert one["rules"] == rules
    assert aggregated == {"apiVersion": "v1", "kind": "ClusterRole", "metadata": {"name": "sum"}, **selects}
