"""Changes in the contract: the checker itself, and the present models compared with the released ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.support.tables import table

from moorage.cli.commands.schemas import contract_folder, generated, parsed, read_schemas
from moorage.cli.contract.compat import compare
from moorage.cli.contract.jsonschemas import event_schema
from moorage_schemas.topics import TOPICS

Schema = dict[str, Any]

OLD: Schema = {
    "x-moorage-event-type": "io.moorage.thing.seen.v1",
    "x-moorage-topic": "moorage.things.v1",
    "$defs": {
        "Colour": {"enum": ["red", "blue"], "type": "string"},
        "Part": {
            "additionalProperties": False,
            "properties": {"size": {"type": "integer", "minimum": 1}},
            "required": ["size"],
            "type": "object",
        },
    },
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z]+$"},
        "note": {"type": "string", "default": ""},
        "colour": {"$ref": "#/$defs/Colour"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}, "default": []},
        "main": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}], "default": None},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "weight": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "ratio": {"type": "integer"},
        "free": {"type": "object", "additionalProperties": True},
    },
    "required": ["name"],
    "type": "object",
}


def _set(path: str, value: Any) -> Callable[[Schema], None]:
    *parents, last = path.split("/")

    def change(schema: Schema) -> None:
        node: Any = schema
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node[part]
        node[last] = value

    return change


def _drop(path: str) -> Callable[[Schema], None]:
    *parents, last = path.split("/")

    def change(schema: Schema) -> None:
        node: Any = schema
        for part in parents:
            node = node[part]
        del node[last]

    return change


def _compare(change: Callable[[Schema], None]) -> list[str]:
    new = copy.deepcopy(OLD)
    change(new)
    return [str(found) for found in compare({"thing": OLD}, {"thing": new})]


@table(
    ("change", "words"),
    [
        (_drop("properties/note"), "thing: note: the field was removed"),
        (_set("required", ["name", "note"]), "thing: note: the field became required"),
        (_set("properties/name/type", "integer"), "thing: name: the type narrowed from string to integer"),
        (_set("properties/name/maxLength", 20), "thing: name: maxLength fell from 63 to 20"),
        (_set("properties/name/minLength", 2), "thing: name: minLength rose from 1 to 2"),
        (_set("properties/note/maxLength", 20), "thing: note: maxLength fell from none to 20"),
        (_set("properties/name/pattern", "^[a-y]+$"), "thing: name: pattern changed from ^[a-z]+$ to ^[a-y]+$"),
        (_set("properties/note/format", "date-time"), "thing: note: format changed from none to date-time"),
        (_set("properties/note/enum", ["", "x"]), "thing: note: only , x is accepted now"),
        (_set("properties/note/default", "-"), "thing: note: the default changed from '' to '-'"),
        (_drop("properties/note/default"), "thing: note: the default '' was removed"),
        (_set("$defs/Colour/enum", ["red", "green"]), "thing: colour: blue is no longer accepted"),
        (_set("$defs/Part/properties/size/minimum", 2), "thing: parts[].size: minimum rose from 1 to 2"),
        (_set("$defs/Part/required", ["size", "age"]), "thing: parts[].age: a new required field"),
        (_set("properties/main", {"$ref": "#/$defs/Part", "default": None}), "thing: main: null is no longer accepted"),
        (_set("properties/labels/additionalProperties", {"type": "integer"}), "thing: labels.*: the type narrowed"),
        (_set("properties/labels/additionalProperties", value=False), "thing: labels: fields that are not named"),
        (_set("properties/free/additionalProperties", {"type": "string"}), "thing: free.*: the type narrowed from any"),
        (_set("properties/weight/anyOf", [{"type": "string"}]), "thing: weight: integer is no longer accepted"),
        (_set("properties/weight", {"type": "integer"}), "thing: weight: string is no longer accepted"),
        (_set("x-moorage-topic", "moorage.things.v2"), "the topic changed from moorage.things.v1"),
        (_set("x-moorage-event-type", "io.moorage.thing.seen.v2"), "the event type changed"),
    ],
)
def test_breaking(change: Callable[[Schema], None], words: str) -> None:
    found = _compare(change)
    assert any(line.startswith(words) or words in line for line in found), found


@table(
    "change",
    [
        lambda _: None,
        _set("properties/added", {"type": "string", "default": ""}),
        _set("required", []),
        _set("properties/name/maxLength", 100),
        _drop("properties/name/maxLength"),
        _drop("properties/name/pattern"),
        _set("properties/name/minLength", 0),
        _set("$defs/Colour/enum", ["red", "blue", "green"]),
        _set("$defs/Part/properties/size/minimum", 0),
        _set("properties/ratio/type", "number"),
        _set("properties/ratio", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        _set("properties/weight/anyOf", [{"type": "string"}, {"type": "number"}, {"type": "null"}]),
        _set("properties/labels/additionalProperties", {}),
        _set("additionalProperties", value=True),
        _drop("additionalProperties"),
        _drop("$defs/Part/additionalProperties"),
        _set("additionalProperties", {"type": "string"}),
        _set("description", "other words"),
    ],
)
def test_not_breaking(change: Callable[[Schema], None]) -> None:
    assert _compare(change) == []


def test_what_takes_unknown_fields_may_name_one_and_may_not_refuse_them_again() -> None:
    released = copy.deepcopy(OLD)
    del released["additionalProperties"]
    del released["$defs"]["Part"]["additionalProperties"]
    new = copy.deepcopy(released)
    new["properties"]["added"] = {"type": "string", "default": ""}
    new["$defs"]["Part"]["properties"]["added"] = {"type": "string", "default": ""}
    assert compare({"thing": released}, {"thing": new}) == []
    assert {str(found) for found in compare({"thing": released}, {"thing": OLD})} == {
        "thing: (whole): fields that are not named are no longer accepted",
        "thing: parts[]: fields that are not named are no longer accepted",
        "thing: main: fields that are not named are no longer accepted",
    }


def test_a_schema_may_go_only_for_a_higher_version_on_its_own_topic() -> None:
    second = {**OLD, "x-moorage-event-type": "io.moorage.thing.seen.v2", "x-moorage-topic": "moorage.things.v2"}
    same_topic = {**second, "x-moorage-topic": "moorage.things.v1"}
    other = {**second, "x-moorage-event-type": "io.moorage.other.seen.v2"}
    assert compare({"thing": OLD}, {"thing2": second}) == []
    for new in ({}, {"thing2": same_topic}, {"thing2": other}):
        (found,) = compare({"thing": OLD}, new)
        assert "no event of a higher version replaces it" in str(found)


def test_schemas_that_name_themselves_are_compared_once() -> None:
    tree: Schema = {
        "$defs": {
            "Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}, "size": {"type": "integer"}}}
        },
        "$ref": "#/$defs/Tree",
    }
    narrowed = copy.deepcopy(tree)
    narrowed["$defs"]["Tree"]["properties"]["size"]["maximum"] = 9
    assert compare({"tree": tree}, {"tree": tree}) == []
    assert [found.path for found in compare({"tree": tree}, {"tree": narrowed})] == ["size"]


@table("topic", [topic for topic in TOPICS if "required" in event_schema(topic)], ids=lambda topic: topic.short)
def test_every_required_field_of_every_event_is_guarded(topic: Any) -> None:
    new = event_schema(topic)
    for name in new["required"]:
        old = copy.deepcopy(new)
        old["required"].remove(name)
        assert [found.path for found in compare({"it": old}, {"it": new})] == [name]
        del old["properties"][name]
        assert [found.path for found in compare({"it": new}, {"it": {**old}})][0] == name  # noqa: RUF015 - the first says it


def test_the_models_break_nothing_that_was_released() -> None:
    breaking = compare(read_schemas(contract_folder() / "baseline"), parsed(generated()))
    assert list(map(str, breaking)) == []


def test_the_baseline_holds_every_event() -> None:
    released = read_schemas(contract_folder() / "baseline")
    assert {f"events/{topic.event_type}.json" for topic in TOPICS} <= set(released)
