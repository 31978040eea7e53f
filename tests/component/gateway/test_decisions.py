"""Decisions for deployers as server-sent events: beginnings, changes, where a client goes on, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Scope
from tests.component.gateway.double import NOW, Fixture, node_ref, pod_ref
from tests.component.gateway.test_access import allow, call, gateway_of
from tests.component.gateway.test_mirror import SOURCE, mirrored, seen_node

from moorage.apiserver.authentication.authenticator import ADMIN
from moorage.apiserver.http.filters.limits import OpenWatches
from moorage.apiserver.http.intake.decisions import Decisions
from moorage.apiserver.http.paths import ClusterPaths
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.topics import BINDINGS, EVICTIONS

PATH = "/v1/decisions"


class Client:
    """A client of the endpoint, at the side of the server: it gets the bytes that would be sent."""

    def __init__(self, gateway: Fixture, heartbeat: float = 15.0, path: str = PATH) -> None:
        self.caught_up = 0
        self._path = path
        metrics, watches = gateway.gateway.metrics, OpenWatches(0)
        self._decisions = Decisions(gateway.store, metrics, watches, self._catch_up, heartbeat)

    async def _catch_up(self) -> None:
        self.caught_up += 1

    @contextlib.asynccontextmanager
    async def stream(self, query: str = "", last: str = "") -> AsyncIterator[Stream]:
        headers = [(b"last-event-id", last.encode())] if last else []
        scope = {"type": "http", "method": "GET", "path": self._path, "query_string": query.encode()}
        request = await routed({**scope, "headers": headers, "state": {"user": ADMIN}})
        answer = await self._decisions.handle(request)
        assert isinstance(answer, StreamingResponse)
        assert answer.media_type == "text/event-stream"
        stream = Stream(answer.body_iterator)
        try:
            yield stream
        finally:
            await stream.close()


async def routed(scope: Scope) -> Request:
    """A request as an endpoint gets it: without the cluster in its path."""
    found = list[Scope]()

    async def take(routed_scope: Scope, *_: Any) -> None:
        found.append(routed_scope)

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    await ClusterPaths(take)(scope, nothing, nothing)
    return Request(found[0])


class Stream:
    """The events of a stream, one at a time."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks
        self._events: list[tuple[str, str, Any]] = []
        self.last = ""

    async def next(self) -> tuple[str, Any]:
        """The next event: its name and its data."""
        async with asyncio.timeout(120):
            while not self._events:
                chunk = bytes(await anext(self._chunks))
                self._events += [_parsed(event) for event in chunk.decode().split("\n\n") if event]
        name, identity, data = self._events.pop(0)
        self.last = identity or self.last
        return name, data

    async def until_present(self) -> list[tuple[str, Any]]:
        """The events before `present`."""
        found = []
        while (event := await self.next())[0] != "present":
            found.append(event)
        return found

    async def close(self) -> None:
        await self._chunks.aclose()


def _parsed(event: str) -> tuple[str, str, Any]:
    fields = dict(line.partition(": ")[::2] for line in event.splitlines())
    return fields["event"], fields.get("id", ""), json.loads(fields["data"])


def evict(
    gateway: Fixture, name: str, node: str, state: EvictionState, revision: int = 1, *, trace: str = ""
) -> EvictionDecided:
    event = EvictionDecided(
        workload=pod_ref(name),
        workload_uid="u",
        owner=pod_ref(name),
        target=node_ref(node),
        generation=1,
        revision=revision,
        state=state,
        decided_time=NOW,
    )
    meta = Meta(f"{name}-{revision}", "test", EVICTIONS.event_type, traceparent=trace)
    gateway.log.append(EVICTIONS, eviction_key(event.workload, event.target, 1), event.target.key, event, meta)
    return event


def unbind(gateway: Fixture, name: str, node: str) -> None:
    gateway.log.append(BINDINGS, binding_key(pod_ref(name), node_ref(node)), node_ref(node).key, None)


async def test_a_stream_begins_with_everything_and_goes_on_with_each_change() -> None:
    gateway = Fixture()
    gateway.bound(pod_ref("a"), node_ref("n1"))
    eviction = evict(gateway, "a", "n1", EvictionState.SCHEDULED)
    client = Client(gateway)
    async with client.stream() as stream:
        reset, bound, evicted = await stream.until_present()
        assert reset == ("reset", {"reason": "Begin", "message": ""})
        assert (bound[0], bound[1]["key"]) == ("bindings", "Pod/default/a|Node/n1")
        assert WorkloadBound.model_validate(bound[1]["value"]).uid == "u"
        assert (evicted[0], evicted[1]["key"]) == ("evictions", "Pod/default/a|Node/n1|1")
        assert EvictionDecided.model_validate(evicted[1]["value"]) == eviction
        assert client.caught_up == 1
        evict(gateway, "a", "n1", EvictionState.REQUESTED, 2)
        unbind(gateway, "a", "n1")
        name, data = await stream.next()
        assert (name, data["value"]["state"]) == ("evictions", "Requested")
        assert await stream.next() == ("bindings", {"key": "Pod/default/a|Node/n1", "value": None})


async def test_a_requested_eviction_has_the_trace_context_of_its_record() -> None:
    gateway = Fixture()
    first, second = (f"00-{'a' * 32}-{digit * 16}-01" for digit in "bc")
    evict(gateway, "a", "n1", EvictionState.SCHEDULED, trace=first)
    client = Client(gateway)
    async with client.stream() as stream:
        _, (_, data) = await stream.until_present()
        assert "traceparent" not in data
        evict(gateway, "a", "n1", EvictionState.REQUESTED, 2, trace=second)
        assert (await stream.next())[1]["traceparent"] == second
        path = "/apis/moorage.io/v1alpha1/namespaces/default/evictions"
        (shown,) = (await gateway.call("GET", path)).json()["items"]
        assert shown["metadata"]["annotations"] == {"moorage.io/traceparent": second}
        evict(gateway, "a", "n1", EvictionState.COMPLETED, 3, trace=second)
        name, data = await stream.next()
        assert (name, "traceparent" in data) == ("evictions", False)


async def test_a_client_goes_on_after_the_last_event_that_it_has_seen() -> None:
    gateway, client = Fixture(), None
    client = Client(gateway)
    async with client.stream() as stream:
        await stream.until_present()
        gateway.bound(pod_ref("a"), node_ref("n1"))
        await stream.next()
        last = stream.last
    gateway.bound(pod_ref("b"), node_ref("n1"))
    unbind(gateway, "a", "n1")
    async with client.stream(last=last) as stream:
        assert [(await stream.next())[1]["key"] for _ in range(2)] == ["Pod/default/b|Node/n1", "Pod/default/a|Node/n1"]
    assert client.caught_up == 1


async def test_a_client_that_was_away_too_long_begins_anew() -> None:
    gateway = Fixture(kept=3)
    client = Client(gateway)
    async with client.stream() as stream:
        await stream.until_present()
        last = stream.last
    for number in range(8):
        gateway.bound(pod_ref(f"p{number}"), node_ref("n1"))
    async with client.stream(last=last) as stream:
        (name, data), *bound = await stream.until_present()
        assert (name, data["reason"]) == ("reset", "Expired")
        assert len(bound) == 8


async def test_a_client_that_reads_slowly_takes_no_memory_and_begins_anew() -> None:
    gateway = Fixture(kept=3)
    async with Client(gateway).stream() as stream:
        await stream.until_present()
        for number in range(8):
            gateway.bound(pod_ref(f"p{number}"), node_ref("n1"))
        (name, data), *bound = await stream.until_present()
        assert (name, data["message"]) == ("reset", "this client reads too slowly")
        assert len(bound) == 8


async def test_a_quiet_stream_says_how_far_it_has_come() -> None:
    gateway = Fixture()
    async with Client(gateway, heartbeat=0.01).stream() as stream:
        await stream.until_present()
        before = stream.last
        await gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n9"}})
        while stream.last == before:
            assert (await stream.next())[0] == "present"


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("target=Node/n1", ["Pod/default/a|Node/n1"]),
        ("target=Node/*&kind=Pod&namespace=default", ["Pod/default/a|Node/n1", "Pod/default/b|Node/n2"]),
        ("target=Cluster/*", []),
        ("kind=ResourceBinding", []),
        ("namespace=shop", []),
    ],
)
async def test_filters(query: str, keys: list[str]) -> None:
    gateway = Fixture()
    gateway.bound(pod_ref("a"), node_ref("n1"))
    gateway.bound(pod_ref("b"), node_ref("n2"))
    async with Client(gateway).stream(query) as stream:
        assert [data["key"] for name, data in await stream.until_present() if name != "reset"] == keys


@pytest.mark.parametrize(
    ("query", "last", "text"),
    [
        ("target=n1", "", "target: invalid value 'n1': must be Kind/name"),
        ("targets=Node/n1", "", "targets: unknown parameter"),
        ("", "soon", "Last-Event-ID: invalid value 'soon'"),
    ],
)
async def test_wrong_requests_are_refused(query: str, last: str, text: str) -> None:
    answer = await Fixture().call("GET", f"{PATH}?{query}", headers={"last-event-id": last} if last else {})
    assert answer.status_code == 400
    assert text in answer.json()["message"]


async def test_other_methods_and_a_gateway_that_is_not_ready() -> None:
    assert (await Fixture().call("POST", PATH, {})).status_code == 405
    assert (await Fixture(ready=False).call("GET", PATH)).status_code == 503


async def test_an_id_of_the_future_is_answered_with_504_or_a_new_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.apiserver.http.verbs.watch.FRESH_WITHIN", 0.01)
    gateway = Fixture()
    assert (await gateway.call("GET", PATH, headers={"last-event-id": "999"})).status_code == 504
    async with Client(gateway).stream(last="99999999999") as stream:
        assert (await stream.next())[1]["reason"] == "Expired"


# Decisions of a cluster

EAST = f"/clusters/east{PATH}"


def bound_in(gateway: Fixture, cluster: str, name: str, node: str) -> None:
    where = {"cluster": cluster}
    gateway.bound(
        pod_ref(name).model_copy(update=where), node_ref(node).model_copy(update=where), deployer=f"bridge/{cluster}"
    )


async def test_the_stream_of_a_cluster_has_its_own_decisions_with_the_names_of_the_cluster() -> None:
    gateway = Fixture()
    gateway.bound(pod_ref("home"), node_ref("n1"))
    for cluster in ("east", "west"):
        await mirrored(gateway, seen_node(uid=cluster), cluster=cluster, source=f"bridge/{cluster}")
        bound_in(gateway, cluster, f"of-{cluster}", "n1")
    async with Client(gateway, path=EAST).stream("target=Node/*") as stream, Client(gateway).stream() as home:
        reset, (name, bound) = await stream.until_present()
        assert reset == ("reset", {"reason": "Begin", "message": ""})
        assert (name, bound["key"]) == ("bindings", "Pod/default/of-east|Node/n1")
        found = WorkloadBound.model_validate(bound["value"])
        assert (found.deployer, found.workload.cluster, found.target.key) == (SOURCE, "", "Node/n1")
        assert [data["key"] for _, data in (await home.until_present())[1:]] == ["Pod/default/home|Node/n1"]
        for cluster in ("west", "", "east"):
            bound_in(gateway, cluster, "later", "n2")
        assert (await stream.next())[1]["key"] == "Pod/default/later|Node/n2"
        last = stream.last
        assert int(last) == gateway.store.version
        bound_in(gateway, "west", "last", "n2")
    bound_in(gateway, "east", "last", "n3")
    async with Client(gateway, path=EAST).stream(last=last) as stream:
        assert (await stream.next())[1]["key"] == "Pod/default/last|Node/n3"


async def test_a_quiet_stream_of_a_cluster_says_how_far_it_has_come_while_others_change() -> None:
    gateway = Fixture()
    await mirrored(gateway, seen_node(), cluster="east")
    async with Client(gateway, heartbeat=0.01, path=EAST).stream() as stream:
        await stream.until_present()
        before = stream.last
        gateway.bound(pod_ref("home"), node_ref("n1"))
        while stream.last == before:
            assert (await stream.next())[0] == "present"


async def test_a_cluster_that_nobody_mirrors_has_no_decisions() -> None:
    answer = await Fixture().call("GET", EAST)
    assert answer.status_code == 404
    assert answer.json()["message"] == 'clusters.moorage.io "east" not found'


async def test_whoever_watches_decisions_of_a_cluster_may_get_it_too(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    body = {"source": SOURCE, "cluster": "east", "objects": [seen_node()]}
    assert (await call(gateway, "root", "POST", "/v1/mirror", body)).status_code == 200
    watch = {"verbs": ["watch"], "apiGroups": ["moorage.io"], "resources": ["decisions"]}
    get = {"verbs": ["get"], "apiGroups": ["moorage.io"], "resources": ["clusters"], "resourceNames": ["east"]}
    for name, rules in (("ann", (watch,)), ("bob", (watch, get))):
        await allow(gateway, name, [{"kind": "User", "name": name}], *rules)
    # A parameter that there is not is refused after the permissions are checked, and opens no stream.
    for token, code in (("a", 403), ("b", 400)):
        assert (await call(gateway, token, "GET", f"{EAST}?x=y")).status_code == code
