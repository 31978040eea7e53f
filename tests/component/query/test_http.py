"""`GET /v1/explain` at the query worker and through the gateway, and how the command line handles the answers."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.component.gateway.double import Fixture
from tests.component.query.edge import ADDRESS, Edge
from tests.component.query.following import Following
from tests.support.identities import Issuer, written
from tests.support.tables import table
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import TEMPLATE, lifted

from moorage.apiserver.authentication.authenticator import ADMIN
from moorage.apiserver.authentication.peers import Peers
from moorage.apiserver.http.intake.explain import Explanations
from moorage.insight.explain.question import EXPLAINED, Question
from moorage.insight.query import worker
from moorage.insight.query.worker import NotReadyError
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings

Json = dict[str, Any]


def nodes() -> Following:
    settings = lifted(partitions=3)
    world = NodeWorld("n1", "n2", settings=settings)
    world.taint("n2", "k", "NoSchedule")
    world.declare("Pod", "p", pod_spec())
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.run()
    following = Following(world.flow, settings)
    following.follow()
    return following


async def test_an_explanation_with_the_positions_that_it_rests_on() -> None:
    edge = Edge(nodes())
    answer = await edge.get(kind="Pod", name="p", all="true")
    assert answer.status_code == 200
    document = answer.json()
    assert (document["kind"], document["apiVersion"]) == ("Explanation", "moorage.io/v1alpha1")
    assert document["positions"] == {"taints": [1, 2, 3]}
    asked = Question("Pod", "default", "p", every=True)
    assert document["explanation"] == json.loads(await edge.worker.following.from_topics(asked))


async def test_the_gateway_passes_question_and_answer_on() -> None:
    edge = Edge(nodes())
    for given, code in (({"kind": "Pod", "name": "p", "node": "n2"}, 200), ({"kind": "Pod", "name": "gone"}, 404)):
        direct, passed = await edge.get(**given), await edge.gateway.call("GET", "/v1/explain", params=given)
        assert (passed.status_code, passed.headers["content-type"]) == (code, "application/json")
        assert passed.content == direct.content
    edge.worker.obstacle = NotReadyError("its tables are read to 7%")
    passed = await edge.gateway.call("GET", "/v1/explain", params={"kind": "Pod", "name": "p"})
    assert (passed.status_code, passed.headers["retry-after"]) == (503, "1")
    assert passed.json()["message"] == "the query worker is not ready: its tables are read to 7%"


@table(
    ("given", "field", "message"),
    [
        ({}, "kind", f"kind: invalid value '': must be one of {', '.join(EXPLAINED)}"),
        ({"kind": "Zone", "name": "n1"}, "kind", "kind: invalid value 'Zone': must be one of Placement, "),
        ({"kind": "Pod"}, "name", "name: invalid value '': must be a name"),
        ({"kind": "Pod", "name": "a/b"}, "name", "name: invalid value 'a/b': must be a name"),
        ({"kind": "Pod", "name": "p", "namespace": ""}, "namespace", "namespace: invalid value '': must be a name"),
        ({"kind": "Pod", "name": "p", "all": "yes"}, "all", "all: invalid value 'yes': must be true or false"),
        ({"kind": "Pod", "name": "p", "nodes": "n1"}, "nodes", "nodes: invalid value 'n1': must be one of kind, "),
        (
            {"kind": "Pod", "name": "p", "node": "n", "cluster": "c"},
            "cluster",
            "cluster: invalid value 'c': cannot be ",
        ),
        ({"kind": "Pod", "name": "p", "node": "n", "all": "true"}, "all", "all: invalid value 'true': cannot be used"),
        ({"kind": "Pod", "name": "p", "cluster": "c"}, "cluster", "cluster: invalid value 'c': no policy places pod p"),
        (
            {"kind": "Deployment", "name": "web", "node": "n1"},
            "node",
            "node: invalid value 'n1': deployment web has pods",
        ),
    ],
)
async def test_a_question_that_is_put_wrongly(given: Json, field: str, message: str) -> None:
    answer = await Edge(nodes()).get(**given)
    status = answer.json()
    assert (answer.status_code, status["kind"], status["reason"]) == (400, "Status", "BadRequest")
    assert status["message"].startswith(message)
    (cause,) = status["details"]["causes"]
    assert (cause["field"], status["message"].endswith(cause["message"])) == (field, True)


@pytest.mark.parametrize(
    ("given", "message", "details"),
    [
        ({"kind": "Pod", "name": "gone"}, 'pods "gone" not found', {"name": "gone", "kind": "pods"}),
        (
            {"kind": "Deployment", "name": "gone"},
            'deployments.apps "gone" not found',
            {"name": "gone", "group": "apps", "kind": "deployments"},
        ),
        ({"kind": "Pod", "name": "p", "node": "n9"}, 'nodes "n9" not found', {"name": "n9", "kind": "nodes"}),
    ],
)
async def test_what_is_not_there(given: Json, message: str, details: Json) -> None:
    answer = await Edge(nodes()).get(**given)
    status = answer.json()
    assert (answer.status_code, status["reason"], status["message"]) == (404, "NotFound", message)
    assert status["details"] == details


async def test_before_it_has_begun_and_when_it_fails() -> None:
    edge = Edge(nodes())
    edge.worker.obstacle = ZeroDivisionError("of a bug")
    assert (await edge.get(kind="Pod", name="p")).json()["reason"] == "InternalError"
    edge.endpoint._worker = None
    answer = await edge.get(kind="Pod", name="p")
    assert (answer.status_code, answer.json()["message"]) == (503, "the query worker is not ready: it is starting")


async def test_pages_of_other_sites_cannot_ask() -> None:
    edge = Edge(nodes())
    for headers, code in (({"host": "evil.example"}, 421), ({"origin": "http://evil.example"}, 403)):
        answer = await edge.http.get("/v1/explain", params={"kind": "Pod", "name": "p"}, headers=headers)
        assert answer.status_code == code


async def test_beyond_this_machine_only_gateways_may_ask(tmp_path: Path) -> None:
    everywhere: dict[str, Any] = {"http_host": "0.0.0.0"}  # noqa: S104 - as in a container
    with pytest.raises(RuntimeFailure, match=r"MOORAGE_HTTP_HOST: invalid value '0\.0\.0\.0'"):
        Edge(nodes(), Settings(**everywhere))
    key = written(tmp_path, "signing.key", Issuer().pem)
    edge = Edge(nodes(), Settings(**everywhere, service_account_signing_key_file=key))
    asked: dict[str, Any] = {"params": {"kind": "Pod", "name": "p"}, "headers": {"host": "query:8081"}}
    assert (await edge.http.get("/v1/explain", **asked)).status_code == 401
    asked["headers"]["authorization"] = f"Bearer {Peers(key, timedelta()).sign(ADMIN)}"
    assert (await edge.http.get("/v1/explain", **asked)).status_code == 200
    other = written(tmp_path, "other.key", Issuer().pem)
    asked["headers"]["authorization"] = f"Bearer {Peers(other, timedelta()).sign(ADMIN)}"
    assert (await edge.http.get("/v1/explain", **asked)).status_code == 401
    assert (await edge.gateway.call("GET", "/v1/explain?kind=Pod&name=p")).status_code == 401, "it has no key"
    gateway = Fixture(explanations=Explanations(ADDRESS, edge.served, Peers(key, timedelta())))
    assert (await gateway.call("GET", "/v1/explain?kind=Pod&name=p")).status_code == 200


async def test_more_questions_than_can_wait_are_turned_away() -> None:
    edge = Edge(nodes())
    edge.worker.go.clear()
    tasks = [asyncio.create_task(edge.get(kind="Pod", name="p")) for _ in range(40)]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await edge.worker.full.wait()
    assert edge.worker.asking == 8, "so many at the same time"
    assert {task.result().status_code for task in done} == {503}
    edge.worker.go.set()
    codes = [answer.status_code for answer in await asyncio.gather(*tasks)]
    assert (codes.count(200), codes.count(503)) == (32, 8)
    assert "32 questions are already waiting" in (await next(iter(done))).json()["message"]
    assert waiting
    assert (await edge.get(kind="Pod", name="p")).status_code == 200


async def test_a_question_that_is_not_answered_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_ANSWER_SECONDS", 0.01)
    edge = Edge(nodes())
    edge.worker.go.clear()
    answer = await edge.get(kind="Pod", name="p")
    assert answer.status_code == 503
    assert answer.json()["message"] == "the query worker is not ready: there was no answer within 0.01 s"


async def test_a_gateway_that_cannot_ask_says_why() -> None:
    alone = Fixture()
    answer = await alone.call("GET", "/v1/explain", params={"kind": "Pod", "name": "p"})
    assert (answer.status_code, answer.json()["reason"]) == (503, "ServiceUnavailable")
    assert "MOORAGE_QUERY_SERVER is not set" in answer.json()["message"]
    answer = await alone.call("POST", "/v1/explain", {})
    assert (answer.status_code, answer.json()["reason"]) == (405, "MethodNotAllowed")

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody", request=request)

    before = Fixture(explanations=Explanations(ADDRESS, httpx.MockTransport(refuse)))
    answer = await before.call("GET", "/v1/explain", params={"kind": "Pod", "name": "p"})
    assert (answer.status_code, answer.json()["reason"]) == (503, "ServiceUnavailable")
    assert answer.json()["message"] == f"the query worker at {ADDRESS} does not answer: nobody"


async def test_a_gateway_waits_for_a_simulation_and_for_the_one_before_it() -> None:
    waits = []

    def simulated(request: httpx.Request) -> httpx.Response:
        waits.append(request.extensions["timeout"]["read"])
        return httpx.Response(200, json={})

    explanations = Explanations(ADDRESS, httpx.MockTransport(simulated), simulation_timeout=300)
    gateway = Fixture(explanations=explanations)
    question = {"failing": ["Node/n1"]}
    (await gateway.call("POST", "/v1/simulate", question)).raise_for_status()
    assert waits == [630]
