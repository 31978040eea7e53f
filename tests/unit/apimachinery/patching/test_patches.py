from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from tests.support.tables import table
from tests.unit.apimachinery.patching.toys import TOY, TOYS, Document

from moorage.apiserver.machinery.patching import json_patch, merge_patch, strategic_merge
from moorage.apiserver.machinery.patching.errors import PatchError


def spec(**fields: Any) -> Document:
    return {"spec": fields}


def containers(*names: str) -> Document:
    return spec(containers=[{"name": name, "image": name} for name in names])


STRATEGIC: dict[str, tuple[Document, Document, Document]] = {
    "a field is set, null removes": (spec(replicas=1), {"spec": {"replicas": None}}, {"spec": {}}),
    "elements merge by key, new ones come first": (
        containers("a", "b"),
        spec(containers=[{"name": "c", "image": "x"}, {"name": "b", "image": "y"}]),
        spec(
            containers=[
                {"name": "c", "image": "x"},
                {"name": "a", "image": "a"},
                {"name": "b", "image": "y"},
            ]
        ),
    ),
    "an element is deleted": (
        containers("a", "b"),
        spec(containers=[{"name": "a", "$patch": "delete"}]),
        containers("b"),
    ),
    "a list is replaced": (
        containers("a", "b"),
        spec(containers=[{"name": "c", "image": "c"}, {"$patch": "replace"}]),
        containers("c"),
    ),
    "an object is replaced": (
        spec(replicas=1, strategy={"type": "a"}),
        spec(**{"$patch": "replace"}, replicas=2),
        spec(replicas=2),
    ),
    "an object is emptied": (spec(replicas=1), spec(**{"$patch": "delete"}), spec()),
    "scalars merge as a set": (
        spec(addresses=["a", "b"]),
        spec(addresses=["c", "a"]),
        spec(addresses=["c", "a", "b"]),
    ),
    "scalars are deleted": (
        spec(addresses=["a", "b", "c"]),
        {"spec": {"$deleteFromPrimitiveList/addresses": ["a", "c"]}},
        spec(addresses=["b"]),
    ),
    "a list without a key is replaced": (
        spec(tolerations=[{"key": "a"}]),
        spec(tolerations=[{"key": "b"}]),
        spec(tolerations=[{"key": "b"}]),
    ),
    "only the retained fields stay": (
        spec(strategy={"type": "Rolling", "rolling": {"most": 1}}),
        spec(strategy={"type": "Recreate", "$retainKeys": ["type"]}),
        spec(strategy={"type": "Recreate"}),
    ),
    "the given order counts, and others keep their place": (
        containers("a", "b", "c"),
        {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
        containers("b", "c", "a"),
    ),
    "a mark in what is new is left out": (
        {},
        {"metadata": {"labels": {"$patch": "delete"}}, **spec(replicas=1)},
        {"metadata": {}, **spec(replicas=1)},
    ),
}


@table("name", STRATEGIC)
def test_strategic_merges(name: str) -> None:
    document, patch, expected = copy.deepcopy(STRATEGIC[name])
    assert strategic_merge.applied(document, patch, TOY) == expected
    assert (document, patch) == STRATEGIC[name][:2], "no argument is changed"


REFUSED: dict[str, tuple[Document, Any, int, str]] = {
    "no merge key": (
        containers("a"),
        spec(containers=[{"image": "x"}]),
        400,
        "map: map[image:x] does not contain declared merge key: name",
    ),
    "an unknown directive": (
        containers("a"),
        spec(**{"$patch": "erase"}),
        400,
        "unknown patch type: erase in map: map[$patch:erase]",
    ),
    "an unknown directive of an element": (
        containers("a"),
        spec(containers=[{"name": "a", "$patch": 1}]),
        400,
        "unknown patch type: %!s(int64=1) in map: map[$patch:1 name:a]",
    ),
    "a list is not merged by word": (
        containers("a"),
        spec(containers=[{"$patch": "merge"}]),
        400,
        "merging lists cannot yet be specified in the patch",
    ),
    "mixed elements": (
        spec(addresses=["a"]),
        spec(addresses=[1]),
        400,
        "list element types are not identical: [[a] [1]]",
    ),
    "lists of lists": (
        spec(addresses=["a"]),
        spec(addresses=[["b"]]),
        422,
        "the server rejected our request due to an error in our request",
    ),
    "a mark without a name": (
        spec(addresses=["a"]),
        spec(**{"$deleteFromPrimitiveList": ["a"]}),
        400,
        "invalid patch format of primitive list",
    ),
    "an order that lacks an element": (
        containers("a"),
        {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}},
        400,
        "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    ),
    "a field that is not retained": (
        spec(strategy={"type": "a"}),
        spec(strategy={"$retainKeys": ["rolling"], "type": "b"}),
        400,
        "invalid patch format of retainKeys",
    ),
    "no object": ({}, [], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
}


@table("name", REFUSED)
def test_strategic_merges_that_are_refused(name: str) -> None:
    document, patch, code, message = REFUSED[name]
    with pytest.raises(PatchError) as refused:
        strategic_merge.applied(document, patch, TOY)
    assert (refused.value.code, refused.value.message) == (code, message)


@given(TOYS, TOYS)
def test_a_patch_between_two_documents_makes_the_second_of_the_first(one: Document, other: Document) -> None:
    assert merge_patch.applied(one, merge_patch.two_way(one, other)) == other
    assert not merge_patch.two_way(one, one)


def test_merge_patches() -> None:
    assert merge_patch.applied({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": {"e": None}}}) == {
        "a": {"c": 2, "d": {}}
    }
    with pytest.raises(PatchError) as refused:
        merge_patch.applied({}, ["a"])
    assert (refused.value.code, refused.value.message) == (400, "Invalid JSON Patch")


def test_json_patches() -> None:
    document = {"a": [1, 2, 3], "b": {"c~/d": 1}}
    patch = [
        {"op": "test", "path": "/b/c~0~1d", "value": 1},
        {"op": "add", "path": "/a/-", "value": 4},
        {"op": "remove", "path": "/a/-2"},
        {"op": "add", "path": "/a/-2", "value": 5},
        {"op": "copy", "from": "/a", "path": "/b/e"},
        {"op": "move", "from": "/b/c~0~1d", "path": "/f"},
        {"op": "replace", "path": "/a/0", "value": None},
        {"op": "test", "path": "/nothing", "value": None},
        {"op": "replace", "path": "/g"},
        {"op": "copy", "from": "/nothing", "path": "/h"},
    ]
    before = copy.deepcopy((document, patch))
    assert json_patch.applied(document, patch) == {
        "a": [None, 2, 5, 4],
        "b": {"e": [1, 2, 5, 4]},
        "f": 1,
        "g": None,
        "h": None,
    }
    assert (document, patch) == before


def test_paths_of_json_patches_that_rfc_6902_does_not_know() -> None:
    patch = [
        {"op": "replace", "path": "/a/01", "value": 5},
        {"op": "test", "path": "/a/+1", "value": 5},
        {"op": "add", "path": "ignored/b", "value": 1},
    ]
    assert json_patch.applied({"a": [1, 2]}, patch) == {"a": [1, 5], "b": 1}


_UNPROCESSABLE = "the server rejected our request due to an error in our request"


@table(
    ("patch", "code", "message"),
    [
        ([{"op": "test", "path": "/a", "value": True}], 422, _UNPROCESSABLE),
        ([{"op": "remove", "path": "/b"}], 422, _UNPROCESSABLE),
        ([{"op": "replace", "path": "/b/c", "value": 1}], 422, _UNPROCESSABLE),
        ([{"op": "add", "path": "/b/c", "value": 1}], 422, _UNPROCESSABLE),
        ([{"op": "add", "path": "", "value": {}}], 422, _UNPROCESSABLE),
        ([{"op": "erase", "path": "/a"}], 422, _UNPROCESSABLE),
        ([{"op": "copy", "path": "/b"}], 422, _UNPROCESSABLE),
        ([{"op": "add", "path": "b", "value": 1}], 422, _UNPROCESSABLE),
        ({}, 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([1], 400, "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            [{"op": 1}],
            400,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (
            [{"op": "test", "path": "/a", "value": 1}] * 10_001,
            413,
            "The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
    ],
)
def test_json_patches_that_are_refused(patch: Any, code: int, message: str) -> None:
    with pytest.raises(PatchError) as refused:
        json_patch.applied({"a": 1}, patch)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_copies_that_grow_without_bound_are_refused() -> None:
    patch = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40  # each doubles the document
    with pytest.raises(PatchError) as refused:
        json_patch.applied({"a": ["x"]}, patch)
    assert refused.value.code == 422


def test_long_lists_take_the_order_of_the_patch() -> None:
    many = [str(number) for number in range(20_000)]  # a search for each element would take minutes
    patch = {"spec": {"addresses": many[::-1], "$setElementOrder/addresses": many[::-1]}}
    assert strategic_merge.applied(spec(addresses=many), patch, TOY) == spec(addresses=many[::-1])
    merged = strategic_merge.applied(containers(*many), containers(*many[::-1]), TOY)
    assert len(merged["spec"]["containers"]) == len(many)
