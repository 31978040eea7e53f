"""`POST /v1/conditions`, called with the CloudEvents project's own HTTP binding."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from tests.component.gateway.double import NOW, Fixture, later, node

from moorage_schemas.condition import ConditionReported
from moorage_schemas.topics import CONDITION_REPORTS

PATH = "/v1/conditions"
REPORT = {
    "target": {"kind": "Node", "name": "n1"},
    "type": "Ready",
    "status": "False",
    "observedTime": "2026-01-01T12:00:00Z",
}
BATCH = {"content-type": "application/cloudevents-batch+json"}


def event(identity: str = "r1", data: Any = None, **attributes: Any) -> CloudEvent:
    base = {"id": identity, "source": "probe/ä disk", "type": CONDITION_REPORTS.event_type, "time": NOW}
    fixed = {"specversion": "1.0", "datacontenttype": "application/json"}
    return CloudEvent({**base, **attributes, **fixed}, REPORT if data is None else data)


def structured(identity: str = "r1", data: Any = None, **attributes: Any) -> Any:
    return json.loads(to_structured(event(identity, data, **attributes), JSONFormat()).body)


async def send(gateway: Fixture, message: HTTPMessage) -> httpx.Response:
    return await gateway.http.post(PATH, content=message.body, headers=message.headers)


async def ready() -> Fixture:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", node())
    return gateway


@pytest.mark.parametrize("binding", [to_binary, to_structured])
async def test_one_event_is_taken(binding: Any) -> None:
    gateway = await ready()
    answer = await send(gateway, binding(event(), JSONFormat()))
    assert (answer.status_code, answer.json()["id"]) == (202, "r1"), answer.text
    (write,) = gateway.log.reported
    assert (write.topic, write.key, write.partition_key) == (CONDITION_REPORTS, "Node/n1", "Node/n1")
    assert (write.meta.id, write.meta.source, write.meta.time) == ("r1", "probe/ä disk", NOW)
    assert isinstance(write.event, ConditionReported)
    assert write.event.observed_time == datetime.fromisoformat("2026-01-01T12:00:00Z")


async def test_a_trace_context_goes_along() -> None:
    gateway = await ready()
    message = to_binary(event(), JSONFormat())
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await gateway.http.post(PATH, content=message.body, headers={**message.headers, "traceparent": trace})
    assert gateway.log.reported[0].meta.traceparent == trace


async def test_a_batch_has_an_outcome_for_each_event() -> None:
    gateway = await ready()
    batch = [structured("a"), structured("b", {**REPORT, "status": "Maybe"}), {"id": 7}, structured("c")]
    answer = await gateway.http.post(PATH, content=json.dumps(batch), headers=BATCH)
    outcome = answer.json()
    assert answer.status_code == 207
    assert (outcome["kind"], outcome["accepted"], outcome["refused"]) == ("ReportOutcomeList", 2, 2)
    assert [item["outcome"] for item in outcome["items"]] == ["Accepted", "Refused", "Refused", "Accepted"]
    assert outcome["items"][1]["status"]["details"]["causes"][0]["field"] == "data.status"
    assert [write.meta.id for write in gateway.log.reported] == ["a", "c"]


async def test_a_whole_batch_that_is_good_or_bad() -> None:
    gateway = await ready()
    good = await gateway.http.post(PATH, content=json.dumps([structured("a")]), headers=BATCH)
    bad = await gateway.http.post(PATH, content=json.dumps([structured("a", {})]), headers=BATCH)
    assert [good.status_code, bad.status_code] == [202, 422]


@pytest.mark.parametrize(
    ("data", "attributes", "code", "field"),
    [
        ({**REPORT, "target": {"kind": "Node", "name": "nobody"}}, {}, 404, "target"),
        ({**REPORT, "observedTime": "2026-01-01T12:00:31Z"}, {}, 422, "observedTime"),
        ({**REPORT, "observedTime": "noon"}, {}, 422, "data.observedTime"),
        ({**REPORT, "observedTime": "2026-01-01T12:00:00"}, {}, 422, "data.observedTime"),
        ({**REPORT, "status": True}, {}, 422, "data.status"),
        ({**REPORT, "colour": "red"}, {}, 422, "data.colour"),
        ({**REPORT, "target": {"kind": "Unicorn", "name": "n1"}}, {}, 422, "data.target.kind"),
        ({**REPORT, "type": "x" * 400}, {}, 422, "data.type"),
        ({**REPORT, "message": "x" * 70_000}, {}, 413, "value"),
        (REPORT, {"type": "com.example.other"}, 400, "type"),
    ],
)
async def test_bad_reports_are_refused_by_field(data: Any, attributes: Any, code: int, field: str) -> None:
    gateway = await ready()
    answer = await send(gateway, to_structured(event("r1", data, **attributes), JSONFormat()))
    assert answer.status_code == code, answer.text
    assert answer.json()["details"]["causes"][0]["field"] == field
    assert gateway.log.reported == []


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"{}", {"content-type": "application/json"}, 400),
        (b"{", {"content-type": "application/cloudevents+json"}, 400),
        (b"[]", {"content-type": "application/cloudevents+json"}, 400),
        (b"{}", {"content-type": "application/cloudevents-batch+json"}, 400),
        (b"x", {"content-type": "text/plain"}, 415),
        (b"[" + b"1," * 1000 + b"1]", BATCH, 413),
        (b" " * 1_500_000, BATCH, 413),
    ],
)
async def test_requests_that_are_no_events_are_refused(body: bytes, headers: dict[str, str], code: int) -> None:
    gateway = await ready()
    answer = await gateway.http.post(PATH, content=body, headers=headers)
    assert (answer.status_code, answer.json()["kind"]) == (code, "Status"), answer.text


async def test_a_report_within_the_clock_skew_is_taken() -> None:
    gateway = await ready()
    soon = {**REPORT, "observedTime": later(30).isoformat()}
    assert (await send(gateway, to_structured(event("r1", soon), JSONFormat()))).status_code == 202


WORKLOAD = {"kind": "Pod", "namespace": "shop", "name": "web-0"}


async def test_a_report_about_a_workload_goes_to_its_target() -> None:
    gateway = await ready()
    data = {**REPORT, "type": "Healthy", "workload": WORKLOAD}
    answer = await send(gateway, to_structured(event("r1", data, source="deployer/a"), JSONFormat()))
    assert answer.status_code == 202, answer.text
    (write,) = gateway.log.reported
    assert (write.key, write.partition_key, write.meta.source) == ("Node/n1", "Node/n1", "deployer/a")
    assert isinstance(write.event, ConditionReported)
    assert write.event.workload is not None
    assert write.event.workload.key == "Pod/shop/web-0"


@pytest.mark.parametrize(
    ("workload", "code", "field"),
    [
        ({**WORKLOAD, "name": "web|Node/n2"}, 422, "workload.name"),
        ({**WORKLOAD, "namespace": "a/b"}, 422, "workload.namespace"),
        ({**WORKLOAD, "name": ""}, 422, "data.workload.name"),
        ({"name": "web-0"}, 422, "data.workload.kind"),
        ("Pod/shop/web-0", 422, "data.workload"),
    ],
)
async def test_a_wrong_workload_is_named(workload: Any, code: int, field: str) -> None:
    gateway = await ready()
    answer = await send(gateway, to_structured(event("r1", {**REPORT, "workload": workload}), JSONFormat()))
    assert answer.status_code == code, answer.text
    assert answer.json()["details"]["causes"][0]["field"] == field
    assert gateway.log.reported == []


async def test_a_workload_on_an_unknown_target_is_refused() -> None:
    gateway = await ready()
    data = {**REPORT, "target": {"kind": "Node", "name": "nobody"}, "workload": WORKLOAD}
    answer = await send(gateway, to_structured(event("r1", data), JSONFormat()))
    assert (answer.status_code, answer.json()["reason"]) == (404, "UnknownTarget"), answer.text


async def test_reports_are_refused_while_they_cannot_be_kept() -> None:
    gateway = await ready()
    gateway.log.obstacle = "no broker"
    assert (await send(gateway, to_binary(event(), JSONFormat()))).status_code == 503
    assert (await gateway.call("GET", PATH)).status_code == 405
    assert (await send(Fixture(ready=False), to_binary(event(), JSONFormat()))).status_code == 503
