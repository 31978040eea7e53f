from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.apimachinery.patching.toys import TOY, TOYS, Document, tidy

from moorage.apiserver.machinery.patching import field_sets, managed_fields
from moorage.apiserver.machinery.patching.errors import PatchError
from moorage.apiserver.machinery.patching.server_side_apply import LAST_APPLIED, FieldManagement, reset_fields

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)
MAIN = FieldManagement(TOY, "toys/v1", "Toy", reset=[("status",)], is_custom=True)
STATUS = FieldManagement(TOY, "toys/v1", "Toy", subresource="status", reset=[("spec",)], is_custom=True)


def toy(labels: dict[str, str] | None = None, **spec: Any) -> Document:
    metadata = {"name": "toy", **({"labels": labels} if labels is not None else {})}
    return {"apiVersion": "toys/v1", "kind": "Toy", "metadata": metadata, "spec": spec}


def entries(document: Document) -> dict[str, Document]:
    """The sets of fields by manager, operation and subresource."""
    return {
        "/".join(filter(None, (one["manager"], one["operation"], one.get("subresource", "")))): one["fieldsV1"]
        for one in document["metadata"].get("managedFields", [])
    }


def times(document: Document) -> dict[str, str]:
    return {one["manager"]: one.get("time", "") for one in document["metadata"].get("managedFields", [])}


def stored(document: Document) -> Document:
    """As the gateway keeps it: it has a uid, by which it is known to exist."""
    return {**document, "metadata": {**document["metadata"], "uid": "1"}}


def test_an_update_owns_what_it_changes_and_takes_it_from_others() -> None:
    made = stored(MAIN.updated(None, toy(replicas=1, containers=[{"name": "a", "image": "x"}]), "alice", NOW))
    assert entries(made) == {
        "alice/Update": {
            "f:spec": {
                ".": {},
                "f:containers": {".": {}, 'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}},
                "f:replicas": {},
            }
        }
    }
    changed = MAIN.updated(
        made, {**made, "spec": {"replicas": 2, "containers": [{"name": "a", "image": "x"}]}}, "bob", LATER
    )
    assert entries(changed)["bob/Update"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in entries(changed)["alice/Update"]["f:spec"]
    assert times(changed) == {"alice": "2026-01-01T00:00:00Z", "bob": "2026-01-01T00:00:01Z"}


def test_an_update_that_changes_nothing_changes_no_entry() -> None:
    made = stored(MAIN.updated(None, toy(replicas=1), "alice", NOW))
    assert MAIN.updated(made, made, "bob", LATER) == made


def test_status_is_owned_through_its_subresource_alone() -> None:
    made = stored(MAIN.updated(None, {**toy(replicas=1), "status": {"ready": 1}}, "alice", NOW))
    assert "f:status" not in entries(made)["alice/Update"]
    after = STATUS.updated(made, {**made, "spec": {"replicas": 9}, "status": {"ready": 2}}, "kubelet", NOW)
    assert entries(after)["kubelet/Update/status"] == {"f:status": {"f:ready": {}}}
    assert entries(after)["alice/Update"] == entries(made)["alice/Update"]


def test_applying_merges_and_owns_what_is_declared() -> None:
    made = stored(MAIN.applied(None, toy(replicas=1), "alice", NOW))
    assert made["spec"] == {"replicas": 1}
    after = MAIN.applied(made, toy(containers=[{"name": "a"}]), "bob", LATER)
    assert after["spec"] == {"replicas": 1, "containers": [{"name": "a"}]}
    assert entries(after) == {
        "alice/Apply": {"f:spec": {"f:replicas": {}}},
        "bob/Apply": {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:name": {}}}}},
    }


def test_a_field_of_another_manager_is_a_conflict_unless_it_is_forced() -> None:
    made = stored(MAIN.updated(None, toy({"a": "1"}, replicas=1), "kubectl", NOW))
    with pytest.raises(PatchError) as one:
        MAIN.applied(made, toy(replicas=2), "bob", LATER)
    assert (one.value.code, one.value.reason) == (409, "Conflict")
    assert one.value.message == 'Apply failed with 1 conflict: conflict with "kubectl" using toys/v1: .spec.replicas'
    assert [(cause.reason, cause.message, cause.field) for cause in one.value.causes] == [
        ("FieldManagerConflict", 'conflict with "kubectl" using toys/v1', ".spec.replicas")
    ]
    with pytest.raises(PatchError) as two:
        MAIN.applied(made, toy({"a": "2"}, replicas=2), "bob", LATER)
    assert two.value.message == (
        'Apply failed with 2 conflicts: conflicts with "kubectl" using toys/v1:\n- .metadata.labels.a\n- .spec.replicas'
    )
    forced = MAIN.applied(made, toy(replicas=2), "bob", LATER, force=True)
    assert forced["spec"] == {"replicas": 2}
    assert "f:replicas" not in entries(forced)["kubectl/Update"]["f:spec"]


def test_equal_values_are_shared_and_stay_while_somebody_declares_them() -> None:
    made = stored(MAIN.applied(None, toy(replicas=1, addresses=["a"]), "alice", NOW))
    shared = stored(MAIN.applied(made, toy(replicas=1), "bob", LATER))
    assert times(shared)["bob"] == "", "it changed nothing"
    left = stored(MAIN.applied(shared, toy(), "alice", LATER))
    assert left["spec"] == {"replicas": 1}
    assert "spec" not in tidy(MAIN.applied(left, toy(), "bob", LATER))


def test_an_element_that_is_given_up_goes_with_all_that_is_in_it() -> None:
    made = stored(MAIN.applied(None, toy(containers=[{"name": "a", "image": "x"}, {"name": "b"}]), "alice", NOW))
    made = MAIN.updated(
        made, {**made, "spec": {"containers": [{"name": "a", "image": "x", "args": ["1"]}, {"name": "b"}]}}, "bob", NOW
    )
    left = MAIN.applied(made, toy(containers=[{"name": "b"}]), "alice", LATER)
    assert left["spec"]["containers"] == [{"name": "b"}]
    assert set(entries(left)) == {"alice/Apply"}


def test_elements_keep_their_keys_default_and_order() -> None:
    ports = [{"number": 1}, {"number": 1, "protocol": "UDP"}]
    made = stored(MAIN.applied(None, toy(containers=[{"name": "a", "ports": ports}]), "alice", NOW))
    owned = entries(made)["alice/Apply"]["f:spec"]["f:containers"]['k:{"name":"a"}']["f:ports"]
    assert set(owned) == {'k:{"number":1,"protocol":"TCP"}', 'k:{"number":1,"protocol":"UDP"}'}


def test_what_the_server_adds_is_no_change_and_has_no_owner() -> None:
    def as_declared(document: Any) -> Document:
        if "spec" not in document:
            return dict(document)
        return {**document, "spec": {key: value for key, value in document["spec"].items() if key != "strategy"}}

    main = FieldManagement(TOY, "toys/v1", "Toy", is_custom=True, as_declared=as_declared)
    made = stored(main.updated(None, toy(replicas=1, strategy={"type": "a"}), "alice", NOW))
    assert made["spec"]["strategy"] == {"type": "a"}
    assert entries(made) == {"alice/Update": {"f:spec": {".": {}, "f:replicas": {}}}}
    after = main.applied(made, toy(replicas=1), "bob", LATER)
    assert after["spec"] == made["spec"]
    assert times(after)["bob"] == "", "it changed nothing"


def test_what_was_there_before_the_first_apply_has_a_manager() -> None:
    after = MAIN.applied(stored(toy(replicas=1)), toy({"a": "1"}), "alice", NOW)
    assert set(entries(after)) == {"before-first-apply/Update", "alice/Apply"}


def test_a_field_that_client_side_apply_declared_is_kubectls_own() -> None:
    last = json.dumps(toy(replicas=1))
    document = toy(replicas=1)
    document["metadata"]["annotations"] = {LAST_APPLIED: last}
    made = stored(MAIN.updated(None, document, "kubectl-client-side-apply", NOW))
    after = MAIN.applied(made, toy(replicas=2), "kubectl", LATER)
    assert after["spec"] == {"replicas": 2}
    assert json.loads(after["metadata"]["annotations"][LAST_APPLIED]) == toy(replicas=2)
    with pytest.raises(PatchError):
        MAIN.applied(made, toy(replicas=2), "alice", LATER)
    edited = MAIN.updated(made, {**made, "spec": {"replicas": 5}}, "bob", LATER)
    with pytest.raises(PatchError):
        MAIN.applied(edited, toy(replicas=2), "kubectl", LATER)


@pytest.mark.parametrize("reset", [[], [{}]])
def test_managed_fields_can_be_forgotten(reset: list[Any]) -> None:
    made = stored(MAIN.updated(None, toy(replicas=1), "alice", NOW))
    sent = {**made, "metadata": {**made["metadata"], "managedFields": reset}}
    after = MAIN.updated(made, sent, "alice", LATER)
    assert "managedFields" not in after["metadata"]
    assert "managedFields" not in MAIN.updated(after, {**after, "spec": {"replicas": 2}}, "alice", LATER)["metadata"]


@pytest.mark.parametrize(
    "sent",
    [
        None,
        [{"manager": "x", "operation": "Steal", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
        [{"manager": "x", "operation": "Update", "apiVersion": "v1"}],
        [{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}],
        [{"manager": 1}],
        "x",
    ],
)
def test_malformed_managed_fields_change_nothing(sent: Any) -> None:
    made = stored(MAIN.updated(None, toy(replicas=1), "alice", NOW))
    request = {**made, "metadata": {**made["metadata"], "managedFields": sent}}
    assert MAIN.updated(made, request, "alice", LATER) == made


def test_the_oldest_of_many_updates_become_one() -> None:
    document = stored(MAIN.updated(None, toy({}, replicas=1), "first", NOW))
    for number in range(12):
        labels = {**document["metadata"]["labels"], f"l{number}": "x"}
        changed = {**document, "metadata": {**document["metadata"], "labels": labels}}
        document = MAIN.updated(document, changed, f"m{number:02}", NOW + timedelta(seconds=number + 1))
    found = entries(document)
    assert len(found) == managed_fields.MOST_UPDATES
    assert set(found["ancient-changes/Update"]["f:metadata"]["f:labels"]) >= {"f:l0", "f:l1", "f:l2"}
    assert "m11/Update" in found


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**toy(), "kind": "Doll"}, "invalid object type: toys/v1, Kind=Doll"),
        ({**toy(), "metadata": {"name": "toy", "managedFields": []}}, "metadata.managedFields must be nil"),
        (toy(replicas="1"), ": .spec.replicas: expected numeric (int or float), got string"),
        (toy(colour="red"), ": .spec.colour: field not declared in schema"),
        (toy(containers=[{"image": "a"}]), ": .spec.containers: element 0: associative list with keys has an element"),
        (toy(containers=[{"name": "a"}] * 2), ': .spec.containers: duplicate entries for key [name="a"]'),
        (toy(strategy=[1]), ": .spec.strategy: expected map, got &{[1]}"),
    ],
)
def test_configurations_that_are_refused(config: Document, message: str) -> None:
    with pytest.raises(PatchError) as refused:
        MAIN.applied(None, config, "alice", NOW)
    assert refused.value.code == 400
    assert message in refused.value.message
    if message.startswith(": "):
        assert refused.value.message.startswith("failed to create typed patch object (/toy; toys/v1, Kind=Toy): ")


def test_the_fields_that_a_subresource_cannot_set() -> None:
    assert reset_fields("", "ConfigMap", "", has_status=False) == ()
    assert reset_fields("", "Node", "", has_status=True) == (("status",),)
    assert reset_fields("", "Node", "status", has_status=True) == (("spec",),)
    assert ("metadata", "ownerReferences") in reset_fields("", "Pod", "status", has_status=True)
    assert reset_fields("x.io", "X", "status", has_status=True, is_custom=True) == (("metadata",), ("spec",))


@pytest.mark.parametrize(
    ("manager", "agent", "expected"),
    [
        ("me", "kubectl/v1.37", "me"),
        ("", "kubectl/v1.37 (linux)", "kubectl"),
        ("", "a\x07b", "ab"),
        ("", "x" * 200, "x" * 128),
    ],
)
def test_managers_are_named_after_the_client(manager: str, agent: str, expected: str) -> None:
    assert managed_fields.manager_of(manager, agent) == expected


@given(TOYS, TOYS)
def test_applying_again_changes_nothing(one: Document, other: Document) -> None:
    made = stored(MAIN.applied(None, one, "alice", NOW))
    after = stored(MAIN.applied(made, other, "bob", LATER, force=True))
    again = MAIN.applied(after, other, "bob", LATER + timedelta(seconds=9), force=True)
    assert again == after
    assert MAIN.updated(after, after, "carol", LATER) == after


@given(TOYS, TOYS, TOYS)
def test_what_one_manager_alone_applied_and_leaves_out_is_gone(one: Document, two: Document, live: Document) -> None:
    made = stored(MAIN.updated(None, live, "alice", NOW))
    first = stored(MAIN.applied(made, one, "bob", NOW, force=True))
    second = MAIN.applied(first, two, "bob", LATER, force=True)
    theirs = managed_fields.owned(entry for key, entry in managed_fields.kept(first).items() if key[0] != "bob")
    had = managed_fields.kept(first).get(("bob", "Apply", "", ""))
    has = managed_fields.kept(second).get(("bob", "Apply", "", ""))
    alone = field_sets.difference(had.fields if had else {}, field_sets.union(theirs, has.fields if has else {}))
    leaves = {path for path in field_sets.members(alone) if _value(first, path) not in (None, {}, [])}
    assert not {path for path in leaves if _is_leaf(first, path) and _value(second, path) is not None}


@given(TOYS, st.lists(TOYS, max_size=4))
def test_every_field_of_an_updated_object_has_one_updating_owner(first: Document, more: list[Document]) -> None:
    document = stored(MAIN.updated(None, first, "m0", NOW))
    for number, one in enumerate(more, 1):
        document = MAIN.updated(document, stored({**one, "metadata": {**one["metadata"]}}), f"m{number}", NOW)
    owned: list[tuple[str, ...]] = []
    for entry in managed_fields.kept(document).values():
        owned += field_sets.members(entry.fields)
    assert len(owned) == len(set(owned))


def _value(document: Any, path: tuple[str, ...]) -> Any:
    for element in path:
        kind, text = element[0], element[2:]
        if kind == "f":
            document = document.get(text) if isinstance(document, dict) else None
        elif kind == "v":
            document = text if isinstance(document, list) and json.loads(text) in document else None
        else:
            keys = json.loads(text)
            document = next(
                (
                    one
                    for one in document or []
                    if all(one.get(key, "TCP" if key == "protocol" else None) == value for key, value in keys.items())
                ),
                None,
            )
    return document


def _is_leaf(document: Document, path: tuple[str, ...]) -> bool:
    return not isinstance(_value(document, path), dict)


PATHS = st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"a"}', 'v:"x"', "v:1"]), min_size=1, max_size=4).map(tuple)


def made(paths: set[tuple[str, ...]]) -> field_sets.FieldSet:
    result: field_sets.FieldSet = {}
    for path in paths:
        node: field_sets.FieldSet = {}
        for element in reversed(path):
            node = {element: node}
        result = field_sets.union(result, node)
    return result


@given(st.sets(PATHS), st.sets(PATHS))
def test_sets_of_fields_are_sets(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> None:
    left, right = made(one), made(other)
    assert set(field_sets.members(left)) == one
    assert set(field_sets.members(field_sets.union(left, right))) == one | other
    assert set(field_sets.members(field_sets.intersection(left, right))) == one & other
    assert set(field_sets.members(field_sets.difference(left, right))) == one - other
    below = {path for path in one if any(path[: len(gone)] == gone for gone in other)}
    assert set(field_sets.members(field_sets.without(left, right))) == one - below
    assert all(field_sets.has(left, path) for path in one)
    assert field_sets.read(field_sets.ordered(left)) == left
