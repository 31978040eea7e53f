"""What is sent for a record, and which records a webhook wants."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from aiokafka import TopicPartition

from moorage.runtime.wire.codec import LightRecord
from moorage.workers.webhooks.deliveries import UNBOUND, Delivery, delivery_of, letter_of, replayed
from moorage.workers.webhooks.subscription import Position
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.envelope import EnvelopeError, Meta, parse_structured, to_headers
from moorage_schemas.resources.webhook import WebhookReplay, WebhookSpec
from moorage_schemas.topics import BINDINGS, DEAD_LETTERS, EVICTIONS, PLACEMENTS, TAINTS, Topic

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEB = "Pod/shop/web"
KEYS = {BINDINGS: f"{WEB}|Node/n1", EVICTIONS: f"{WEB}|Node/n1|1", PLACEMENTS: WEB, TAINTS: "Node/n1"}
EVERY = ["bindings", "evictions", "placements", "taints"]


def spec(**fields: Any) -> WebhookSpec:
    return WebhookSpec.model_validate({"url": "https://a", "secretFile": "a", "events": EVERY} | fields)


def record(topic: Topic, value: bytes | None = b'{"a":1}', **fields: Any) -> LightRecord:
    meta = Meta("e1", "moorage/placement", topic.event_type, NOW, KEYS[topic], "first", "cause")
    given = {"key": KEYS[topic].encode(), "headers": tuple(to_headers(meta)), "offset": 7, **fields}
    return LightRecord(topic=topic.name(), partition=3, timestamp=1000, value=value, **given)


def sent(topic: Topic, of: WebhookSpec, found: LightRecord | None = None, uid: str = "u1") -> Delivery | None:
    place = TopicPartition(topic.name(), 3)
    return delivery_of(of, uid, topic, found or record(topic), place=place, offset=7, written=NOW)


def test_an_event_is_sent_as_it_was_written() -> None:
    delivery = sent(BINDINGS, spec())
    assert delivery is not None
    meta, data = parse_structured(orjson.loads(delivery.body))
    assert (meta.id, meta.type, meta.subject) == ("e1", BINDINGS.event_type, KEYS[BINDINGS])
    assert (meta.time, meta.correlation_id, meta.causation_id) == (NOW, "first", "cause")
    assert data == {"a": 1}
    assert delivery.lane == WEB


def test_the_id_is_that_of_the_event_and_the_webhook() -> None:
    one, again, other = sent(BINDINGS, spec()), sent(BINDINGS, spec(url="https://b")), sent(BINDINGS, spec(), uid="u2")
    assert one is not None
    assert again is not None
    assert other is not None
    assert one.id == again.id != other.id


def test_the_end_of_a_binding_is_an_event_of_its_own() -> None:
    delivery = sent(BINDINGS, spec(), record(BINDINGS, None, headers=()))
    assert delivery is not None
    document = orjson.loads(delivery.body)
    assert document["type"] == UNBOUND
    assert document["data"] == {
        "workload": {"kind": "Pod", "namespace": "shop", "name": "web"},
        "target": {"kind": "Node", "name": "n1"},
    }
    assert all(sent(topic, spec(), record(topic, None)) is None for topic in (EVICTIONS, PLACEMENTS, TAINTS))


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, EVERY),
        ({"events": ["taints"]}, ["taints"]),
        ({"namespaces": ["shop"]}, ["bindings", "evictions", "placements"]),
        ({"namespaces": ["other"]}, []),
        ({"targets": ["Node/n*"]}, ["bindings", "evictions", "taints"]),
        ({"targets": ["Cluster/*"]}, []),
        ({"targets": ["Node/n1"], "namespaces": ["shop"]}, ["bindings", "evictions"]),
    ],
)
def test_filters(fields: dict[str, Any], wanted: list[str]) -> None:
    assert [topic.short for topic in KEYS if sent(topic, spec(**fields)) is not None] == wanted


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(EnvelopeError):
        sent(BINDINGS, spec(), record(BINDINGS, headers=()))


@pytest.mark.parametrize("value", [b'{"a":1}', None])
def test_a_dead_letter_is_sent_again_as_it_was(value: bytes | None) -> None:
    delivery = sent(BINDINGS, spec(), record(BINDINGS, value))
    assert delivery is not None
    _, key, content, headers = letter_of("ops", 60, delivery, "no answer (3 attempts)", NOW)
    assert content is not None
    letter = DeadLettered.model_validate_json(content)
    assert (letter.service, letter.reason, letter.field, letter.value) == ("webhooks", "Undelivered", "webhook", "ops")
    assert letter.message == "Webhook ops did not accept it: no answer (3 attempts)"
    stored = LightRecord(DEAD_LETTERS.name(), 1, 40, 2000, key, content, tuple(headers))
    place = TopicPartition(DEAD_LETTERS.name(), 1)
    asked = WebhookReplay(since=NOW, until=NOW)
    again = replayed("ops", "u1", spec(), asked, stored, place=place)
    assert again is not None
    assert (again.id, again.body, again.place, again.offset) == (delivery.id, delivery.body, place, 40)
    assert replayed("other", "u1", spec(), asked, stored, place=place) is None
    later = WebhookReplay(since=NOW.replace(hour=1), until=NOW.replace(hour=2))
    assert replayed("ops", "u1", spec(), later, stored, place=place) is None


def test_a_position_is_that_of_the_first_that_is_not_over() -> None:
    position = Position(10)
    for offset in (10, 12, 15):
        assert position.read(offset)
        position.begin(offset)
    assert not position.read(12), "it was read already"
    assert position.read(16)
    position.end(12)
    assert position.committable == 10
    position.end(10)
    assert position.committable == 15
    position.end(15)
    assert position.committable == 17
