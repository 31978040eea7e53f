"""The list of fields, held to the structure of each kind and to its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.tables import table

from moorage.apiserver.kinds.kind import View, named
from moorage.apiserver.machinery.openapi.registry import schema_of
from moorage.apiserver.machinery.schema import Form, Schema
from moorage.apiserver.rules.field_effects import Effect, FieldEffect, effect_of, effects, entry_of, ineffective_fields

PAGE = Path(__file__).parents[3] / "docs" / "fields.md"
KINDS = tuple(effects())
PARTS = ("spec", "status")


def leaves(schema: Schema, path: str, around: tuple[int, ...] = ()) -> Iterator[str]:
    """The paths of all fields that contain no others."""
    while schema.form in {Form.LIST, Form.MAP} and schema.items is not None:
        schema, path = schema.items, f"{path}[]"
    if schema.form is not Form.STRUCT or not schema.fields or id(schema) in around:
        yield path.removesuffix("[]")
        return
    for name, field in schema.fields.items():
        yield from leaves(field.schema, f"{path}.{name}", (*around, id(schema)))


def fields_of(kind: str) -> set[str]:
    definition = named(kind)
    assert definition is not None, kind
    schema = schema_of(definition.group, definition.versions[0], kind)
    return {path for part in PARTS if part in schema.fields for path in leaves(schema.fields[part].schema, part)}


@table("kind", KINDS)
def test_every_field_is_on_the_list(kind: str) -> None:
    assert sorted(path for path in fields_of(kind) if effect_of(kind, path) is None) == []


@table("kind", KINDS)
def test_the_list_has_no_other_entries(kind: str) -> None:
    found = {one.path for path in fields_of(kind) if (one := entry_of(kind, path)) is not None}
    assert {one.path for one in effects()[kind]} == found


@table("kind", KINDS)
def test_what_is_unread_belongs_to_mirrored_objects_alone(kind: str) -> None:
    definition = named(kind)
    unread = [one.path for one in effects()[kind] if one.effect is Effect.UNREAD]
    assert not unread or isinstance(definition, View)


def with_field(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    inner = with_field(rest, value) if rest else value
    return {first.removesuffix("[]"): [inner] if first.endswith("[]") else inner}


WARNED = [(kind, one) for kind in KINDS for one in effects()[kind] if one.effect is Effect.WARNED]


@table("case", WARNED, ids=lambda case: f"{case[0]} {case[1].path}")
def test_whoever_sets_a_field_without_effect_is_warned(case: tuple[str, FieldEffect]) -> None:
    kind, one = case
    (warning,) = ineffective_fields(kind, with_field(one.path, "x"))
    assert warning.startswith(f"{one.path} has no effect")
    assert one.why in warning
    for value in (*one.unless, None, False, "", {}, []):
        assert list(ineffective_fields(kind, with_field(one.path, value))) == []


def test_the_pod_of_a_template_has_the_warnings_of_a_pod() -> None:
    spec = {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority", "hostname": "a"}
    document = {"spec": {"replicas": 1, "template": {"metadata": {}, "spec": spec}}}
    assert list(ineffective_fields("Deployment", document)) == [
        "spec.template.spec.priorityClassName has no effect: no pod makes room for another one"
    ]
    assert effect_of("Deployment", "spec.template.spec.nodeName") == effect_of("Pod", "spec.nodeName")


def as_tables() -> str:
    lines = []
    for kind in KINDS:
        lines += [f"## {kind}", "", "| field | effect | |", "|---|---|---|"]
        lines += [f"| `{one.path}` | {one.effect} | {_note(one)} |" for one in effects()[kind]]
        lines.append("")
    return "\n".join(lines)


def _note(one: FieldEffect) -> str:
    unless = f"unless {', '.join(f'`{value}`' for value in one.unless)}" if one.unless else ""
    return "; ".join(filter(None, (one.why, unless)))


def test_the_page_shows_the_list() -> None:
    text = PAGE.read_text("utf-8")
    assert text[text.index("## ") :] == as_tables()
