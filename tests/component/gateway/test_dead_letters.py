"""Dead letters in the API: lists in parts, selectors, what is shown, and what is sent again."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, node
from tests.component.gateway.memory_records import START, MemoryRecords

from moorage.apiserver.storage import topic_pages
from moorage_schemas.condition import ConditionReported
from moorage_schemas.dead_letter import REPLAY_HEADER, DeadLettered, RefusalReason
from moorage_schemas.topics import AUDIT, CONDITION_REPORTS

LETTERS = "/apis/moorage.io/v1alpha1/deadletters"
MINUTE = 60_000


def letter(
    reason: RefusalReason = RefusalReason.UNKNOWN_TARGET,
    *,
    identity: str = "r1",
    name: str = "n1",
    source: str = "probe/rack",
    seconds: float = 0,
    headers: Mapping[str, str] | None = None,
    **changes: Any,
) -> DeadLettered:
    """The letter of a report about a node."""
    event = {
        "target": {"kind": "Node", "name": name},
        "type": "DiskSlow",
        "status": "True",
        "observedTime": (NOW - timedelta(seconds=30)).isoformat(),
    }
    original = changes.pop("original", json.dumps(event))
    fields: dict[str, Any] = {
        "service": "condition-ingest",
        "reason": reason,
        "message": "target: invalid value",
        "topic": "condition-reports",
        "partition": 0,
        "offset": 7,
        "key": f"Node/{name}",
        "headers": {
            "ce_specversion": "1.0",
            "ce_id": identity,
            "ce_source": source,
            "ce_type": CONDITION_REPORTS.event_type,
            "content-type": "application/json",
            **(headers or {}),
        },
        "original": original,
        "original_size": len(original),
        "refused_time": NOW + timedelta(seconds=seconds),
    }
    return DeadLettered(**{**fields, **changes})


async def names(gateway: Fixture, query: str = "") -> list[str]:
    found = await gateway.ok("GET", f"{LETTERS}{query}")
    return [one["metadata"]["name"] for one in found["items"]]


async def test_the_newest_come_first_whatever_their_partition() -> None:
    letters = MemoryRecords()
    times = [(0, 1), (1, 2), (0, 3), (2, 4), (1, 5), (0, 6)]
    added = [letters.add(partition, letter(), START + minute * MINUTE) for partition, minute in times]
    async with Fixture(letters=letters).running() as gateway:
        assert await names(gateway) == added[::-1]


async def test_a_list_comes_in_parts_that_later_letters_do_not_change() -> None:
    letters = MemoryRecords()
    added = [letters.add(number % 3, letter(), START + number) for number in range(10)]
    async with Fixture(letters=letters).running() as gateway:
        found: list[str] = []
        token = ""
        while True:
            part = await gateway.ok("GET", f"{LETTERS}?limit=3&continue={token}")
            found += [one["metadata"]["name"] for one in part["items"]]
            letters.add(1, letter(), START + 1_000)
            if not (token := part["metadata"].get("continue", "")):
                break
            assert len(part["items"]) == 3
    assert found == added[::-1]


async def test_letters_whose_time_is_over_are_missing_from_a_later_part() -> None:
    letters = MemoryRecords(1)
    added = [letters.add(0, letter(), START + number) for number in range(6)]
    async with Fixture(letters=letters).running() as gateway:
        first = await gateway.ok("GET", f"{LETTERS}?limit=2")
        letters.begins[0] = int(added[2].split("-")[1])
        token = first["metadata"]["continue"]
        assert await names(gateway, f"?continue={token}") == [added[3], added[2]]
        letters.begins[0] = letters.ends[0]
        assert await names(gateway, f"?continue={token}") == []


async def test_selectors_choose_by_what_a_letter_says() -> None:
    letters = MemoryRecords()
    a = letters.add(0, letter(RefusalReason.FORBIDDEN), START)
    b = letters.add(1, letter(source="probe/disk"), START + 1)
    c = letters.add(2, letter(RefusalReason.UNDELIVERED, service="webhooks", topic="bindings", value="w1"), START + 2)
    async with Fixture(letters=letters).running() as gateway:
        assert await names(gateway, "?fieldSelector=reason=Forbidden") == [a]
        assert await names(gateway, "?fieldSelector=source=probe/disk") == [b]
        assert await names(gateway, "?fieldSelector=status.service=webhooks,value=w1") == [c]
        assert await names(gateway, "?fieldSelector=topic!=bindings") == [b, a]
        assert await names(gateway, "?fieldSelector=key=Node/n1,metadata.name!=" + a) == [c, b]
        assert await names(gateway, "?sinceTime=2026-01-01T12:00:00.001Z") == [c, b]
        for query, why in (
            ("fieldSelector=original=x", "field label not supported: original"),
            ("sinceTime=yesterday", "sinceTime: invalid value 'yesterday'"),
            ("continue=x", "invalid continue token"),
            ("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvYSJ9", "invalid continue token"),
        ):
            answer = await gateway.call("GET", f"{LETTERS}?{query}")
            assert answer.status_code == 400
            assert why in answer.text


async def test_a_search_for_few_letters_among_many_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_pages, "MOST_READ", 500)
    letters = MemoryRecords()
    wanted = letters.add(1, letter(RefusalReason.FORBIDDEN), START)
    for number in range(2_000):
        letters.add(number % 3, letter(), START + 1 + number)
    async with Fixture(letters=letters).running() as gateway:
        token, parts, found = "", 0, []
        while True:
            before = letters.read_positions
            part = await gateway.ok("GET", f"{LETTERS}?limit=5&fieldSelector=reason=Forbidden&continue={token}")
            found += [one["metadata"]["name"] for one in part["items"]]
            assert letters.read_positions - before < 4_000, "one window more than it may read"
            parts += 1
            if not (token := part["metadata"].get("continue", "")):
                break
    assert found == [wanted]
    assert 2 < parts < 20


async def test_a_part_has_no_more_bytes_than_fit() -> None:
    letters = MemoryRecords(1)
    for number in range(9):
        letters.add(0, letter(original="x" * 1_000_000), START + number)
    async with Fixture(letters=letters).running() as gateway:
        part = await gateway.ok("GET", LETTERS)
        assert len(part["items"]) == 4
        assert part["metadata"]["continue"]


async def test_what_is_no_letter_is_passed_over() -> None:
    letters = MemoryRecords(1)
    letters.add(0, b"{}")
    name = letters.add(0, letter())
    async with Fixture(letters=letters).running() as gateway:
        assert await names(gateway) == [name]
        assert await gateway.status(f"{LETTERS}/0-0") == 404


async def test_one_letter_is_shown_with_its_original() -> None:
    letters = MemoryRecords()
    name = letters.add(1, letter(seconds=0.5))
    async with Fixture(letters=letters).running() as gateway:
        found = await gateway.ok("GET", f"{LETTERS}/{name}")
        assert found["metadata"] == {"name": "1-0", "creationTimestamp": "2026-01-01T12:00:00Z"}
        assert found["status"]["reason"] == "UnknownTarget"
        assert json.loads(found["status"]["original"])["type"] == "DiskSlow"
        for missing in ("1-1", "1-01", "9-0", "x", "1-0-0", "1--1", f"1-{10**30}"):
            assert await gateway.status(f"{LETTERS}/{missing}") == 404, missing


async def test_a_table_has_the_columns_of_the_kind() -> None:
    letters = MemoryRecords()
    letters.add(1, letter())
    async with Fixture(letters=letters).running() as gateway:
        accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        found = await gateway.ok("GET", LETTERS, headers=accept)
    titles = [one["name"] for one in found["columnDefinitions"]]
    assert titles == ["Name", "Service", "Reason", "Topic", "Key", "Source", "Age", "Message"]
    cells = found["rows"][0]["cells"]
    assert cells[:6] == ["1-0", "condition-ingest", "UnknownTarget", "condition-reports", "Node/n1", "probe/rack"]


async def test_secrets_are_not_shown_and_are_sent_again() -> None:
    letters = MemoryRecords()
    event = json.loads(letter().original) | {"message": "password=hunter2 failed"}
    text = json.dumps(event)
    name = letters.add(0, letter(original=text, original_size=len(text), headers={"x-api-key": "hunter2"}))
    raw = b"\xff token=hunter2 "
    binary = base64.b64encode(raw).decode()
    letters.add(1, letter(original=binary, original_encoding="base64", original_size=len(raw)), START + 1)
    async with Fixture(letters=letters).running() as gateway:
        listed = await gateway.ok("GET", LETTERS)
        assert "hunter2" not in json.dumps(listed)
        shown = base64.b64decode(listed["items"][0]["status"]["original"])
        assert shown == b"\xff token=[redacted] "
        await gateway.ok("POST", "/api/v1/nodes", node("n1"))
        await gateway.ok("POST", f"{LETTERS}/{name}/replay")
        assert reports(gateway)[0].message == "password=hunter2 failed"


async def test_letters_cannot_be_watched_or_written() -> None:
    async with Fixture().running() as gateway:
        for method, path in (
            ("GET", f"{LETTERS}?watch=true"),
            ("GET", "/apis/moorage.io/v1alpha1/watch/deadletters"),
            ("POST", LETTERS),
            ("DELETE", LETTERS),
            ("DELETE", f"{LETTERS}/0-0"),
            ("PUT", f"{LETTERS}/0-0/replay"),
            ("GET", f"{LETTERS}/0-0/replay"),
        ):
            answer = await gateway.call(method, path)
            assert answer.status_code == 405, (method, path)


async def test_a_gateway_that_cannot_read_them_says_so() -> None:
    letters = MemoryRecords()
    letters.fails = True
    async with Fixture(letters=letters).running() as gateway:
        answer = await gateway.call("GET", LETTERS)
        assert answer.status_code == 503
        assert "no broker" in answer.text


# Replays.


def reports(gateway: Fixture) -> list[ConditionReported]:
    return [one.event for one in gateway.log.reported if isinstance(one.event, ConditionReported)]


async def test_a_report_is_sent_again_as_it_was() -> None:
    letters = MemoryRecords()
    name = letters.add(2, letter(identity="r7"))
    async with Fixture(letters=letters).running() as gateway:
        await gateway.ok("POST", "/api/v1/nodes", node("n1"))
        answer = await gateway.call("POST", f"{LETTERS}/{name}/replay", headers={"user-agent": "test"})
        assert answer.status_code == 201, answer.text
        assert answer.json()["status"]["replay"] == {"outcome": "Accepted", "id": "r7", "topic": "condition-reports"}
        assert "before Node/n1 was declared" in answer.headers["warning"]
    audited, written = gateway.log.reported
    assert (audited.topic, audited.key) == (AUDIT, f"DeadLetter//{name}")
    assert audited.event is not None
    assert audited.event.model_dump()["verb"] == "create/replay"
    assert (written.topic, written.key, written.partition_key) == (CONDITION_REPORTS, "Node/n1", "Node/n1")
    assert (written.meta.id, written.meta.source) == ("r7", "probe/rack")
    assert dict(written.meta.proofs)[REPLAY_HEADER] == name.encode()


async def test_a_dry_run_checks_and_writes_nothing() -> None:
    letters = MemoryRecords()
    name = letters.add(2, letter())
    async with Fixture(letters=letters).running() as gateway:
        answer = await gateway.call("POST", f"{LETTERS}/{name}/replay?dryRun=All")
        assert answer.status_code == 404
        assert "must be a declared target" in answer.json()["message"]
        await gateway.ok("POST", "/api/v1/nodes", node("n1"))
        found = await gateway.ok("POST", f"{LETTERS}/{name}/replay?dryRun=All")
        assert found["status"]["replay"]["outcome"] == "Accepted"
        assert gateway.log.reported == []


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"topic": "resources", "service": "placement"}, "status.topic", "must be condition-reports"),
        (
            {"reason": RefusalReason.UNDELIVERED, "topic": "bindings", "value": "w1"},
            "status.reason",
            "moorage webhooks replay w1 --since 2026-01-01T12:00:00",
        ),
        ({"truncated": True, "original_size": 2_000_000}, "status.truncated", "a part of its 2000000 bytes"),
        ({"headers": {"ce_id": "x" * 1024}}, "status.headers.ce_id", "fewer than 1024 characters"),
        ({"headers": {f"x-{number}": "" for number in range(70)}}, "status.headers", "fewer than 64"),
    ],
)
async def test_a_letter_that_cannot_be_sent_again_says_why(changes: dict[str, Any], field: str, rule: str) -> None:
    letters = MemoryRecords()
    name = letters.add(0, letter(**changes))
    async with Fixture(letters=letters).running() as gateway:
        answer = await gateway.call("POST", f"{LETTERS}/{name}/replay")
        assert answer.status_code == 422, answer.text
        (cause,) = answer.json()["details"]["causes"]
        assert cause["field"] == field
        assert rule in cause["message"]
        assert gateway.log.reported == []


@pytest.mark.parametrize(
    ("original", "code", "reason"),
    [
        ("no JSON", 422, "NotJSON"),
        ('{"type": "Ready"}', 422, "InvalidEvent"),
        (json.dumps(json.loads(letter().original) | {"observedTime": "2026-01-01T13:00:00Z"}), 422, "FutureTime"),
        (json.dumps(json.loads(letter().original) | {"message": "x" * 70_000}), 413, "TooLarge"),
    ],
)
async def test_a_report_that_is_still_wrong_is_refused_again(original: str, code: int, reason: str) -> None:
    letters = MemoryRecords()
    name = letters.add(0, letter(original=original))
    async with Fixture(letters=letters).running() as gateway:
        await gateway.ok("POST", "/api/v1/nodes", node("n1"))
        answer = await gateway.call("POST", f"{LETTERS}/{name}/replay")
        assert (answer.status_code, answer.json()["reason"]) == (code, reason), answer.text
        assert gateway.log.reported == []


async def test_the_body_may_be_empty_or_name_the_letter() -> None:
    letters = MemoryRecords()
    name = letters.add(0, letter())
    path = f"{LETTERS}/{name}/replay?dryRun=All"
    async with Fixture(letters=letters).running() as gateway:
        await gateway.ok("POST", "/api/v1/nodes", node("n1"))
        same = {"apiVersion": "moorage.io/v1alpha1", "kind": "DeadLetter", "metadata": {"name": name}}
        for body in ({}, same):
            await gateway.ok("POST", path, body)
        wrongs: tuple[Any, ...] = ([], {"kind": "Pod"}, {"metadata": {"name": "other"}}, {"metadata": 1})
        for wrong in wrongs:
            assert (await gateway.call("POST", path, wrong)).status_code == 400, wrong
