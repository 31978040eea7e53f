"""`POST /v1/conditions`, called with the CloudEvents project's own HTTP binding."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from tests.component.gateway.double import NOW, Fixture, later, node, node_ref
from tests.support.tables import table

from moorage.apiserver.http.intake import reports
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.durable_log import Decided, Following, RefusedLater, ReportCounted, Unrecorded, Write
from moorage.decide.conditions.reports import report_hash
from moorage_schemas.condition import ConditionChanged, ConditionReported, WorkloadConditionChanged
from moorage_schemas.dead_letter import DeadLettered, RefusalReason
from moorage_schemas.keys import condition_key, workload_condition_key
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, WORKLOAD_CONDITIONS

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


@table(
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


def known(gateway: Fixture, *, observed: datetime = NOW, workload: WorkloadRef | None = None, **fields: Any) -> None:
    """Write a condition of n1 like condition-ingest."""
    target = node_ref("n1")
    declared = gateway.store.get(ObjectId("Node", "", "n1"))
    assert declared is not None
    values: dict[str, Any] = {
        "target": target,
        "target_uid": declared.document["metadata"]["uid"],
        "type": "Ready",
        "status": "True",
        "source": "probe/disk",
        "report_id": "first",
        "last_transition_time": observed,
        "last_heartbeat_time": observed,
        "generation": 1,
        **fields,
    }
    if workload is None:
        gateway.log.append(CONDITIONS, condition_key(target, "Ready"), target.key, ConditionChanged(**values))
    else:
        key = workload_condition_key(workload, target.key, "Ready")
        gateway.log.append(WORKLOAD_CONDITIONS, key, target.key, WorkloadConditionChanged(**values, workload=workload))


OLDER = "older than 2026-01-01T12:00:10Z, when the condition was last observed"
TWICE = "a report of this source with the id 'first' has already counted"
SILENT = "not newer than 2026-01-01T12:00:00Z, when the condition was last observed before its source fell silent"


@table(
    ("fields", "outcome", "why"),
    [
        ({"observed": later(10)}, "Ignored", OLDER),
        ({}, "Accepted", ""),
        ({"report_id": "r1"}, "Accepted", ""),
        ({"report_id": "r1", "source": "probe/ä disk"}, "Ignored", TWICE.replace("first", "r1")),
        ({"report_id": ""}, "Ignored", SILENT),
        ({"earlier_reports": report_hash("probe/ä disk", "r1")}, "Ignored", TWICE.replace("first", "r1")),
        ({"observed": later(10), "target_uid": "of an earlier node"}, "Accepted", ""),
    ],
)
@table("workload", [None, WorkloadRef(kind="Pod", namespace="shop", name="web-0")])
async def test_a_report_that_cannot_count_is_ignored_with_its_reason(
    fields: dict[str, Any], outcome: str, why: str, workload: WorkloadRef | None
) -> None:
    gateway = await ready()
    known(gateway, workload=workload, **fields)
    named = {} if workload is None else {"workload": workload.model_dump()}
    answer = await send(gateway, to_structured(event(data={**REPORT, **named}), JSONFormat()))
    body = answer.json()
    assert (answer.status_code, body["outcome"]) == ({"Ignored": 200, "Accepted": 202}[outcome], outcome)
    assert (body["id"], body.get("message", "")) == ("r1", why)
    assert len(gateway.log.reported) == (outcome == "Accepted"), "what is ignored is not written"


async def test_a_batch_tells_which_reports_are_ignored() -> None:
    gateway = await ready()
    known(gateway, observed=later(10))
    new = {**REPORT, "observedTime": "2026-01-01T12:00:11Z"}
    batch = [structured("a"), structured("b", new), structured("c", {**REPORT, "status": "Maybe"})]
    answer = await gateway.http.post(PATH, content=json.dumps(batch), headers=BATCH)
    outcome = answer.json()
    assert (answer.status_code, outcome["accepted"], outcome["ignored"], outcome["refused"]) == (207, 1, 1, 1)
    assert [(item["outcome"], item.get("message", "")) for item in outcome["items"]] == [
        ("Ignored", OLDER),
        ("Accepted", ""),
        ("Refused", ""),
    ]
    assert [write.meta.id for write in gateway.log.reported] == ["b"]
    all_old = await gateway.http.post(PATH, content=json.dumps(batch[:1]), headers=BATCH)
    assert (all_old.status_code, all_old.json()["ignored"]) == (202, 1)


class Told:
    """Says of each report what a test has decided."""

    def __init__(self, *decided: Decided | None) -> None:
        self.decided_on = decided
        self.waited: list[float] = []

    @contextlib.asynccontextmanager
    async def follow(self, writes: Sequence[Write]) -> AsyncIterator[Following | None]:
        assert len(writes) == len(self.decided_on)
        yield self

    async def decided(self, offsets: Sequence[int], seconds: float) -> list[Decided | None]:
        assert len(offsets) == len(self.decided_on)
        self.waited.append(seconds)
        return list(self.decided_on)


def letter() -> DeadLettered:
    return DeadLettered(
        service="condition-ingest",
        reason=RefusalReason.UNKNOWN_TARGET,
        message="target: invalid value 'Node/n1': must be a declared target; declare it first",
        field="target",
        value="Node/n1",
        rule="must be a declared target; declare it first",
        topic="condition-reports",
        partition=0,
        offset=0,
        original="{}",
        original_size=2,
        refused_time=NOW,
    )


def changed(**fields: Any) -> ConditionChanged:
    return ConditionChanged(
        **{
            "target": node_ref("n1"),
            "type": "Ready",
            "status": "False",
            "source": "probe/ä disk",
            "report_id": "other",
            "last_transition_time": NOW,
            "last_heartbeat_time": NOW,
            "generation": 2,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("decided", "code", "outcome"),
    [
        (None, 202, "Accepted"),
        (ReportCounted(), 200, "Counted"),
        (RefusedLater(letter()), 404, ""),
        (Unrecorded(None), 200, "Ignored"),
        (Unrecorded(changed()), 200, "Unchanged"),
        (Unrecorded(changed(status="True")), 200, "Ignored"),
        (Unrecorded(changed(last_heartbeat_time=later(10))), 200, "Ignored"),
    ],
)
async def test_a_caller_may_wait_for_what_becomes_of_a_report(
    decided: Decided | None, code: int, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_SHOWN_WITHIN", 0.01)  # nothing more is shown
    told = Told(decided)
    gateway = Fixture(outcomes=told)
    await gateway.ok("POST", "/api/v1/nodes", node())
    known(gateway)
    message = to_structured(event(), JSONFormat())
    answer = await gateway.http.post(f"{PATH}?waitSeconds=2.5", content=message.body, headers=message.headers)
    assert (answer.status_code, answer.json().get("outcome", "")) == (code, outcome), answer.text
    assert told.waited == [2.5]
    await send(gateway, message)
    assert told.waited == [2.5], "who does not ask does not wait"


@pytest.mark.parametrize("wait", ["-1", "31", "nan", "soon", "1e999"])
async def test_a_wait_has_a_limit(wait: str) -> None:
    gateway = await ready()
    message = to_structured(event(), JSONFormat())
    answer = await gateway.http.post(f"{PATH}?waitSeconds={wait}", content=message.body, headers=message.headers)
    assert answer.status_code == 400
    assert f"waitSeconds: invalid value '{wait}': must be a number of seconds, at most 30" in answer.text
