"""`moorage describe` ends with the Events of the object."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from moorage.cli.api.client import Client
from moorage.cli.api.kinds import find
from moorage.cli.commands.simulate_request import HttpxTransport
from moorage.cli.errors import ServerError
from moorage.cli.render import describe
from moorage_schemas.times import format_time

FOUND = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "shop", "uid": "u1"}}


def event(reason: str, minutes: int, *, uid: str = "u1", **more: Any) -> dict[str, Any]:
    seen = format_time(datetime.now(UTC) - timedelta(minutes=minutes))
    return {
        "involvedObject": {"kind": "ConfigMap", "name": "m", "uid": uid},
        "type": "Normal",
        "reason": reason,
        "message": f"{reason}!\n",
        "source": {"component": "me"},
        "lastTimestamp": seen,
        **more,
    }


def told(answer: httpx.Response, found: dict[str, Any], asked: list[httpx.URL]) -> list[str]:
    def answered(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return answer

    transport = HttpxTransport(httpx.MockTransport(answered))
    with Client("http://127.0.0.1:1", transport=transport) as client:
        lines = list(describe.lines(client, find("configmaps"), found))
    return lines[next((at for at, line in enumerate(lines) if line.startswith("Events:")), len(lines)) :]


def test_the_newest_is_last_and_those_of_an_earlier_object_are_left_out() -> None:
    first = format_time(datetime.now(UTC) - timedelta(hours=3))
    items = [
        event("Second", 1, count=4, firstTimestamp=first),
        event("First", 50, involvedObject={"kind": "ConfigMap", "name": "m"}),
        event("Others", 2, uid="u0"),
    ]
    asked: list[httpx.URL] = []
    heading, titles, *rows = told(httpx.Response(200, json={"items": items}), FOUND, asked)
    assert (heading, titles.split()) == ("Events:", ["TYPE", "REASON", "AGE", "FROM", "MESSAGE"])
    assert [row.split() for row in rows] == [
        ["Normal", "First", "50m", "me", "First!"],
        ["Normal", "Second", "60s", "(x4", "over", "3h)", "me", "Second!"],
    ]
    (url,) = asked
    assert url.path == "/api/v1/namespaces/shop/events"
    assert url.params["fieldSelector"] == "involvedObject.kind=ConfigMap,involvedObject.name=m"


def test_where_there_are_none() -> None:
    assert told(httpx.Response(200, json={"items": []}), FOUND, []) == ["Events:         <none>"]
    missing = httpx.Response(404, json={"reason": "NotFound", "message": "no such resource"})
    assert told(missing, FOUND, []) == ["Events:         <none>"]
    views: dict[str, Any] = {**FOUND, "metadata": {"name": "m"}}
    assert told(missing, views, []) == [], "what is no object of its own has no events"


def test_other_errors_are_told() -> None:
    with pytest.raises(ServerError, match="tables"):
        told(httpx.Response(503, json={"message": "reading its tables"}), FOUND, [])
