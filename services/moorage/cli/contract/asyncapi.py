"""The AsyncAPI 3.0 document, generated from the topic table and the services' classes.

FastStream can generate such a document from its subscribers and publishers. It is not used here: it makes a channel for
each handler instead of one for each topic, it does not support record keys, topic settings and the CloudEvents headers,
and the services do not use FastStream for their records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from moorage.cli.contract.jsonschemas import is_closed, opened
from moorage.cli.contract.kafka_roles import Participant
from moorage_schemas.described import DescribedJsonSchema
from moorage_schemas.topics import PARTITIONS, TOPICS, Topic

BINDING_VERSION = "0.5.0"
"""Of AsyncAPI's Kafka bindings."""

_COMPONENTS = "#/components/schemas/"
_TEXT = {"type": "string"}
_INSTANT = {"type": "string", "format": "date-time"}


def document(services: Iterable[Participant], *, version: str) -> dict[str, Any]:
    """Return the whole document as plain data, in a fixed order."""
    return {
        "asyncapi": "3.0.0",
        "id": "urn:moorage",
        "info": {
            "title": "Moorage",
            "version": version,
            "description": (
                "Where may work live in a fleet, and when must it leave: conditions become taints, taints meet "
                "tolerations, and placements and evictions come out. Topics are shown under the default prefix "
                "`moorage`. Values are JSON; attributes are CloudEvents 1.0 in Kafka's binary mode (structured mode is "
                "accepted on condition-reports). A record without value is a tombstone: its key is deleted. Every "
                "client partitions what it writes by Kafka's default partitioner (murmur2) over the text that "
                "`x-partitioned-by` names."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {topic.short: _channel(topic) for topic in TOPICS},
        "operations": {name: operation for service in services for name, operation in _operations(service)},
        "components": {
            "messages": {topic.event.__name__: _message(topic) for topic in TOPICS},
            "schemas": {"CloudEventHeaders": _headers(), **_schemas()},
        },
    }


def _channel(topic: Topic) -> dict[str, Any]:
    settings: dict[str, Any] = {
        name: value.split(",") if name == "cleanup.policy" else value if name in _WORDS else _number(value)
        for name, value in topic.config().items()
    }
    return {
        "address": topic.name(),
        "title": topic.short,
        "description": (topic.event.__doc__ or "").splitlines()[0],
        "messages": {topic.event.__name__: {"$ref": f"#/components/messages/{topic.event.__name__}"}},
        "bindings": {
            "kafka": {
                "topic": topic.name(),
                "partitions": PARTITIONS,
                "topicConfiguration": settings,
                "bindingVersion": BINDING_VERSION,
            }
        },
        "x-key": topic.key,
        "x-partitioned-by": topic.partition_by,
        "x-written-by": topic.writer,
    }


_WORDS: Final = frozenset({"compression.type", "message.timestamp.type"})
"""Settings of topics whose values are words."""


def _number(text: str) -> int | float:
    """Return the value of a topic's setting."""
    return float(text) if "." in text else int(text)


def _message(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.event_type,
        "title": topic.event.__name__,
        "contentType": "application/json",
        "headers": {
            "allOf": [
                {"$ref": "#/components/schemas/CloudEventHeaders"},
                {"type": "object", "properties": {"ce_type": {"const": topic.event_type}}},
            ]
        },
        "correlationId": {
            "description": "The id of the first event of the chain; absent on the first, whose own `ce_id` it is.",
            "location": "$message.header#/ce_correlationid",
        },
        "payload": {"$ref": f"#/components/schemas/{topic.event.__name__}"},
        "bindings": {
            "kafka": {"key": {"type": "string", "description": topic.key}, "bindingVersion": BINDING_VERSION},
        },
    }


def _operations(service: Participant) -> Iterable[tuple[str, dict[str, Any]]]:
    for topic in service.consumes:
        group = {"groupId": {"type": "string", "enum": [f"moorage.{service.name}"]}, "bindingVersion": BINDING_VERSION}
        yield _operation(service, "receive", "consumes", topic, {"bindings": {"kafka": group}})
    for topic in service.reads:
        yield _operation(service, "receive", "reads", topic, {})
    for topic in service.sends:
        yield _operation(service, "send", "sends", topic, {})


_MEANING = {
    "consumes": "Consumed in a group, each record once.",
    "reads": "Read whole as a table; no offsets are committed.",
    "sends": "Written inside transactions.",
}


def _operation(
    service: Participant, action: str, verb: str, topic: Topic, more: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    operation = {
        "action": action,
        "channel": {"$ref": f"#/channels/{topic.short}"},
        "title": f"{service.name} {verb} {topic.short}",
        "summary": service.summary,
        "description": _MEANING[verb],
        "tags": [{"name": service.name}],
        "messages": [{"$ref": f"#/channels/{topic.short}/messages/{topic.event.__name__}"}],
        **more,
    }
    return f"{service.name}.{verb}.{topic.short}", operation


def _headers() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "CloudEvents attributes as Kafka record headers, UTF-8 text.",
        "required": ["ce_specversion", "ce_id", "ce_source", "ce_type"],
        "properties": {
            "ce_specversion": {"const": "1.0"},
            "ce_id": {
                **_TEXT,
                "minLength": 1,
                "description": "A hash of what caused the event; the same cause gives the same id.",
            },
            "ce_source": {**_TEXT, "minLength": 1},
            "ce_type": {**_TEXT, "minLength": 1},
            "ce_time": _INSTANT,
            "ce_subject": {**_TEXT, "description": "The record key."},
            "ce_correlationid": {**_TEXT, "description": "The id of the first event of the chain."},
            "ce_causationid": {**_TEXT, "description": "The id of the event that led to this one."},
            "ce_configuration": {
                **_TEXT,
                "pattern": "^[1-9][0-9]*$",
                "description": "The generation of the MoorageConfiguration by which a service decided. Absent while "
                "there is none, and for records that do not depend on it.",
            },
            "content-type": {"const": "application/json"},
            "traceparent": {**_TEXT, "description": "W3C trace context."},
        },
    }


def _schemas() -> dict[str, Any]:
    """Return the schemas of the events and their parts.

    A closed event has parts of its own, because the parts of the other events accept further fields.
    """
    _, made = models_json_schema(
        [(topic.event, "validation") for topic in TOPICS if not is_closed(topic)],
        by_alias=True,
        ref_template=f"{_COMPONENTS}{{model}}",
        schema_generator=DescribedJsonSchema,
    )
    found: dict[str, Any] = opened(made["$defs"])
    for topic in filter(is_closed, TOPICS):
        name = topic.event.__name__
        schema = topic.event.model_json_schema(
            by_alias=True, ref_template=f"{_COMPONENTS}{name}.{{model}}", schema_generator=DescribedJsonSchema
        )
        parts = schema.pop("$defs", {})
        found |= {name: schema, **{f"{name}.{part}": value for part, value in parts.items()}}
    return dict(sorted(found.items()))
