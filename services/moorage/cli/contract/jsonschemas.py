"""JSON Schema 2020-12 of every event and of every kind of resource.

A schema describes the input that is accepted. It serves readers and writers: the output of Moorage complies with it.
Unknown fields are forbidden only in events that third parties write, because the services refuse such reports. Readers
of all other events must accept the fields that a newer Moorage adds, and so must readers generated from the schemas.
"""

from __future__ import annotations

from typing import Any

from moorage.apiserver.kinds.kind import Kind
from moorage_schemas.described import DescribedJsonSchema
from moorage_schemas.topics import CONDITION_REPORTS, Topic

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of every schema."""

TOPIC = "x-moorage-topic"
"""The keyword for the topic of an event, with the default prefix."""

EVENT_TYPE = "x-moorage-event-type"
"""The keyword for the CloudEvents type of an event."""


def is_closed(topic: Topic) -> bool:
    """Return whether unknown fields are refused in a topic's events. They are where third parties write them."""
    return topic.short == CONDITION_REPORTS.short


def opened(schema: Any) -> Any:
    """Return a schema, or a part of one, that accepts unknown fields wherever it refused them."""
    if isinstance(schema, list):
        return [opened(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: opened(part) for name, part in schema.items() if not (name == "additionalProperties" and part is False)
    }


def event_schema(topic: Topic) -> dict[str, Any]:
    """Return the JSON Schema of a topic's event."""
    schema = topic.event.model_json_schema(by_alias=True, schema_generator=DescribedJsonSchema)
    if not is_closed(topic):
        schema = opened(schema)
    return {
        "$schema": DIALECT,
        "$id": f"urn:moorage:event:{topic.event_type}",
        EVENT_TYPE: topic.event_type,
        TOPIC: topic.name(),
        **schema,
    }


def resource_schema(kind: Kind[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a kind, as the gateway accepts it. Unknown fields are kept."""
    schema = kind.model.model_json_schema(by_alias=True, schema_generator=DescribedJsonSchema)
    properties = dict(schema["properties"])
    properties["apiVersion"] = {"enum": list(kind.api_versions), "type": "string"}
    properties["kind"] = {"const": kind.kind, "type": "string"}
    return {
        "$schema": DIALECT,
        "$id": f"urn:moorage:resource:{'.'.join(part for part in (kind.plural, kind.group) if part)}",
        "x-kubernetes-group-version-kind": [
            {"group": kind.group, "version": version, "kind": kind.kind} for version in kind.versions
        ],
        **schema,
        "title": kind.kind,
        "properties": properties,
    }
