"""Lists in parts, at a resource version, by fields; and deletions of what a list selects."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.component.gateway.double import Fixture, node, pod
from tests.support.tables import table

from moorage.apiserver.http.app import create_app

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"


async def fleet(count: int = 5, **options: Any) -> Fixture:
    gateway = Fixture(**options)
    for number in range(count):
        labels = {"even": str(number % 2 == 0).lower()}
        await gateway.ok("POST", NODES, {"metadata": {"name": f"n{number}", "labels": labels}})
    return gateway


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_parts_make_the_whole_list() -> None:
    gateway = await fleet()
    first = await gateway.ok("GET", f"{NODES}?limit=2")
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["n0", "n1"], 3)
    second = await gateway.ok("GET", NODES, params={"limit": "2", "continue": first["metadata"]["continue"]})
    third = await gateway.ok("GET", NODES, params={"limit": "2", "continue": second["metadata"]["continue"]})
    assert (names(second), names(third)) == (["n2", "n3"], ["n4"])
    assert "continue" not in third["metadata"]
    assert len({part["metadata"]["resourceVersion"] for part in (first, second, third)}) == 1


async def test_parts_of_a_selection_do_not_say_how_many_remain() -> None:
    gateway = await fleet()
    first = await gateway.ok("GET", f"{NODES}?limit=2&labelSelector=even=true")
    assert (names(first), first["metadata"].get("remainingItemCount")) == (["n0", "n2"], None)
    rest = await gateway.ok(
        "GET", NODES, params={"labelSelector": "even=true", "continue": first["metadata"]["continue"]}
    )
    assert (names(rest), "continue" in rest["metadata"]) == (["n4"], False)


async def test_a_list_is_continued_as_it_was() -> None:
    gateway = await fleet()
    first = await gateway.ok("GET", f"{NODES}?limit=2")
    await gateway.ok("DELETE", f"{NODES}/n3")
    await gateway.ok("POST", NODES, node("n2a"))
    rest = await gateway.ok("GET", NODES, params={"continue": first["metadata"]["continue"]})
    assert names(rest) == ["n2", "n3", "n4"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_gateway_that_does_not_know_the_list_goes_on_with_the_present_one_or_says_it_is_gone() -> None:
    gateway = await fleet()
    first = await gateway.ok("GET", f"{NODES}?limit=2")
    app = create_app(gateway.gateway)  # as after a restart, or on another gateway: the same objects, and no such list
    fresh = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost")

    async def onward_from(token: str) -> httpx.Response:
        return await fresh.get(NODES, params={"continue": token})

    token = first["metadata"]["continue"]
    assert names((await onward_from(token)).json()) == ["n2", "n3", "n4"]
    await gateway.ok("DELETE", f"{NODES}/n3")
    gone = await onward_from(token)
    assert (gone.status_code, gone.json()["reason"]) == (410, "Expired")
    assert names((await onward_from(gone.json()["metadata"]["continue"])).json()) == ["n2", "n4"]


@table(
    ("query", "code", "message"),
    [
        ("limit=abc", 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ("limit=99999999999999999999", 400, "value out of range"),
        ("timeoutSeconds=abc&watch=1", 400, "invalid syntax"),
        ("continue=abc", 400, "key is not valid: invalid character 'i' looking for beginning of value"),
        ("continue=e30", 400, "key is not valid: server does not recognize this encoded version "),
        ("continue=!!", 400, "key is not valid: illegal base64 data at input byte 0"),
        ("continue=%F0%9F%98%80", 400, "key is not valid: illegal base64 data at input byte 0"),
        ("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", 400, "key is not valid: it has no version and no start"),
        ("resourceVersion=abc", 400, 'Invalid value: "abc"'),
        ("resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Near&resourceVersion=1", 422, 'Unsupported value: "Near"'),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, 'forbidden for resourceVersion "0"'),
        ("watch=1&sendInitialEvents=true", 422, "requires setting resourceVersionMatch to NotOlderThan"),
        ("watch=1&resourceVersionMatch=NotOlderThan", 422, "forbidden for watch unless sendInitialEvents"),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("watch=1&continue=abc", 422, "forbidden when continue is provided"),
        ("fieldSelector=spec.color=red", 400, "field label not supported: spec.color"),
        ("fieldSelector=metadata.name", 400, "can't understand 'metadata.name'"),
    ],
)
async def test_options_that_are_not_allowed(query: str, code: int, message: str) -> None:
    gateway = await fleet(1)
    answer = await gateway.call("GET", f"{NODES}?{query}")
    assert answer.status_code == code, answer.text
    assert message in answer.json()["message"]


@table(
    ("labels", "message"),
    [
        ("a in web", "unable to parse requirement: found 'web' expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a!=b c", "found 'c', expected: ',' or 'end of string'"),
        ("(a", "found '(', expected: !, identifier, or 'end of string'"),
        ("a>x", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a=b;c", 'values[0][a]: Invalid value: "b;c"'),
        ("a/b/c=d", 'Invalid value: "a/b/c"'),
    ],
)
async def test_label_selectors_that_cannot_be_read(labels: str, message: str) -> None:
    answer = await Fixture().call("GET", NODES, params={"labelSelector": labels})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    assert message in answer.json()["message"]


@table(
    ("labels", "left"),
    [
        ("even in (true, maybe)", "024"),
        ("even notin (true)", "13"),
        ("!even", ""),
        ("even,even!=true", "13"),
        ("number>2", "34"),
        ("number<1", "0"),
        ("number>2,even==true", "4"),
        ("even in ()", ""),
    ],
)
async def test_label_selectors_with_sets_and_numbers(labels: str, left: str) -> None:
    gateway = Fixture()
    for number in range(5):
        values = {"even": str(number % 2 == 0).lower(), "number": str(number)}
        await gateway.ok("POST", NODES, {"metadata": {"name": f"n{number}", "labels": values}})
    assert names(await gateway.ok("GET", NODES, params={"labelSelector": labels})) == [f"n{one}" for one in left]


async def test_a_kind_without_fields_of_its_own_names_those_that_there_are() -> None:
    gateway = Fixture()
    answer = await gateway.call("GET", "/api/v1/configmaps?fieldSelector=data.a=b")
    assert answer.json()["message"] == (
        '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


async def test_a_list_at_a_version_is_exact_or_expired() -> None:
    gateway = await fleet(2)
    listed = await gateway.ok("GET", NODES)
    version = listed["metadata"]["resourceVersion"]
    await gateway.ok("POST", "/api/v1/namespaces/default/pods", pod())  # another kind
    exact = {"resourceVersionMatch": "Exact", "resourceVersion": version}
    again = await gateway.ok("GET", NODES, params=exact)
    assert (names(again), again["metadata"]["resourceVersion"]) == (["n0", "n1"], version)
    await gateway.ok("POST", NODES, node("n9"))
    gone = await gateway.call("GET", NODES, params=exact)
    assert (gone.status_code, gone.json()["reason"]) == (410, "Expired")
    newer = await gateway.ok("GET", NODES, params={**exact, "resourceVersionMatch": "NotOlderThan"})
    assert names(newer) == ["n0", "n1", "n9"]


async def test_a_long_list_is_sent_in_pieces() -> None:
    gateway = Fixture()
    for number in range(700):
        metadata = {"name": f"n{number:03}", "annotations": {"a": "x" * 400}}
        await gateway.ok("POST", NODES, {"metadata": metadata})
    pieces: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            pieces.append(len(message["body"]))

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": NODES,
        "raw_path": NODES.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "server": ("localhost", 80),
        "scheme": "http",
        "http_version": "1.1",
        "asgi": {"version": "3.0", "spec_version": "2.4"},  # the application need not listen for a disconnect
    }
    await gateway.app(scope, receive, send)
    assert len([size for size in pieces if size]) > 1
    assert max(pieces) < sum(pieces) * 0.8


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("", []),
        ("?labelSelector=even=true", ["n1", "n3"]),
        ("?fieldSelector=metadata.name=n2", ["n0", "n1", "n3", "n4"]),
        ("?labelSelector=even=maybe", ["n0", "n1", "n2", "n3", "n4"]),
        ("?dryRun=All", ["n0", "n1", "n2", "n3", "n4"]),
    ],
)
async def test_what_a_list_selects_is_deleted(query: str, left: list[str]) -> None:
    gateway = await fleet()
    gone = await gateway.ok("DELETE", NODES + query)
    assert gone["kind"] == "NodeList"
    expected = names(gone) if "dryRun" in query else sorted({f"n{n}" for n in range(5)} - set(left))
    assert names(gone) == expected
    assert names(await gateway.ok("GET", NODES)) == left


@table(
    ("body", "query", "code", "message"),
    [
        ({"propagationPolicy": "Never"}, "", 422, 'Unsupported value: "Never"'),
        ({"propagationPolicy": "Foreground", "orphanDependents": True}, "", 422, "cannot be both set"),
        ({"dryRun": ["Some"]}, "", 422, 'Unsupported value: ["Some"]'),
        ({"gracePeriodSeconds": "soon"}, "", 400, "cannot unmarshal string"),
        ({"preconditions": {"uid": 7}}, "", 400, "preconditions.uid"),
        ({"kind": "Pod"}, "", 400, 'no kind "Pod" is registered for version "v1"'),
        ([1], "", 400, "JSON object"),
        (None, "?gracePeriodSeconds=soon", 400, "invalid syntax"),
        (None, "?propagationPolicy=Never", 422, "Unsupported value"),
        ({"preconditions": {"uid": "another"}}, "", 409, "the UID in the precondition (another) does not match"),
        ({"preconditions": {"resourceVersion": "77"}}, "", 409, "modified"),
    ],
)
async def test_deletions_that_are_refused(body: Any, query: str, code: int, message: str) -> None:
    gateway = await fleet(1)
    answer = await gateway.call("DELETE", f"{NODES}/n0{query}", body)
    assert answer.status_code == code, answer.text
    assert message.lower() in answer.json()["message"].lower()
    assert names(await gateway.ok("GET", NODES)) == ["n0"]
