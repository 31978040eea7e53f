"""Conversations go on as with a kube-apiserver (vectors/apiserver/conversations.jsonl.gz)."""

from __future__ import annotations

from collections import Counter

from tests.conformance import conversations
from tests.conformance.conversation_requests import TALKS, Conversation, Json
from tests.support.tables import table

RECORDED = conversations.read()


@table("recorded", RECORDED, ids=[one["seed"] for one in RECORDED])
async def test_answers_are_those_of_a_kube_apiserver(recorded: Json) -> None:
    for place, (request, found) in enumerate(await conversations.mine(recorded["seed"])):
        expected = recorded["answers"][place]
        assert conversations.is_same(expected, found), f"{place}: {request}\n{expected}\n{found}"


def test_every_kind_and_most_ends_of_a_request_are_recorded() -> None:
    kinds, ends = Counter[str](), Counter[tuple[str, int]]()
    for one in RECORDED:
        requests = list(Conversation(one["seed"]).requests())
        kinds[requests[0].body["kind"]] += 1
        ends.update((request.method, told["code"]) for request, told in zip(requests, one["answers"], strict=True))
    assert set(kinds) == {talk.kind for talk in TALKS}
    assert min(kinds.values()) >= 5, kinds
    expected = {"POST": {201, 400, 409, 422}, "PUT": {200, 400, 409, 422}, "DELETE": {200, 404, 409, 422}}
    expected |= {"PATCH": {200, 201, 400, 404, 409, 415, 422}, "GET": {200, 400, 404, 406}}
    missing = {(method, code) for method, codes in expected.items() for code in codes} - set(ends)
    assert missing == set()
