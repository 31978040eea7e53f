"""The gateway's two doors for bridges, in front of topics in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web
from tests.component.bridge.topics import Topics
from tests.support.records import T0

from moorage_schemas.condition import HEALTHY, ConditionReported
from moorage_schemas.keys import BindingKey, EvictionKey
from moorage_schemas.refs import TargetRef
from moorage_schemas.resource import Mirrored, TaintWish, resource_key
from moorage_schemas.taint import Taint
from moorage_schemas.topics import BINDINGS, EVICTIONS, RESOURCES, Topic

Json = dict[str, Any]


class Held:
    """A batch that waits.

    Args:
        number: of the batch, among those that have something, from 0.
        written: whether it is written first, and only its answer waits.
    """

    def __init__(self, number: int, *, written: bool) -> None:
        self.number = number
        self.written = written
        self.reached = asyncio.Event()
        """Set when it waits."""

        self.going_on = asyncio.Event()
        """Lets it go on."""

    async def wait(self) -> None:
        self.reached.set()
        await self.going_on.wait()


class GatewayDouble:
    """Writes what it is sent to topics, as the gateway and the service behind it do. Use `serve_gateway`."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.server = ""
        self.is_away = False
        self.answer: Any = None
        """What is answered instead, if it is set."""

        self.mirrored: list[Json] = []
        """The batches of objects."""

        self.held: Held | None = None
        """The batch that waits, if one is to."""

        self._arrived = 0

        self.reported: list[ConditionReported] = []

    @property
    def objects(self) -> list[str]:
        """What was mirrored so far, by kind and name; a deletion has a minus."""
        return [
            text
            for batch in self.mirrored
            for text in (
                *(f"{one['kind']}/{one['metadata']['name']}" for one in batch["objects"]),
                *(f"-{one['kind']}/{one['name']}" for one in batch["deleted"]),
            )
        ]

    async def mirror(self, request: web.Request) -> web.Response:
        batch = orjson.loads(await request.read())
        if (refusal := self._refusal()) is not None:
            return refusal
        held = self._held(batch)
        if held is not None and not held.written:
            await held.wait()
        answer = self._written(batch)
        if held is not None and held.written:
            await held.wait()
        return answer

    def _held(self, batch: Json) -> Held | None:
        if not batch["objects"] and not batch["deleted"]:
            return None
        self._arrived += 1
        return self.held if self.held is not None and self.held.number == self._arrived - 1 else None

    def _written(self, batch: Json) -> web.Response:
        others = self._cluster_uids(batch["source"]) - {batch.get("clusterUID", "")}
        if others and batch.get("clusterUID"):
            return web.json_response(
                {"message": f"clusterUID: there is {min(others)}", "reason": "Conflict"}, status=409
            )
        if (refused := self._refused_name(batch)) is not None:
            return refused
        self.mirrored.append(batch)
        results = []
        for one in batch["objects"]:
            is_newer = self._declare(one, batch)
            outcome = "Written" if is_newer else "Ignored"
            results.append({"key": one["metadata"]["name"], "outcome": outcome})
        for one in batch["deleted"]:
            key = resource_key(one["kind"], one["namespace"], one["name"], batch["cluster"])
            known = self.topics.event(RESOURCES, key)
            if known is not None and known.uid == one["uid"]:
                self.topics.write(RESOURCES, key, None)
                self._end(key)
            results.append({"key": key, "outcome": "Deleted"})
        return web.json_response({"results": results})

    async def conditions(self, request: web.Request) -> web.Response:
        events = orjson.loads(await request.read())
        if (refusal := self._refusal()) is not None:
            return refusal
        return web.json_response({"items": [self._report(event) for event in events]})

    def _refusal(self) -> web.Response | None:
        if self.is_away:
            return web.json_response({"message": "nobody leads"}, status=503)
        return web.json_response(self.answer) if self.answer is not None else None

    def _cluster_uids(self, source: str) -> set[str]:
        """The clusters of which a bridge has mirrored something."""
        events = [self.topics.event(RESOURCES, key) for key in self._keys(RESOURCES)]
        mirrored = [one.mirrored for one in events if one is not None and one.mirrored is not None]
        return {one.cluster_uid for one in mirrored if one.source == source} - {""}

    def _refused_name(self, batch: Json) -> web.Response | None:
        """The answer to a batch of a cluster of which an object is mirrored under another name."""
        events = [self.topics.event(RESOURCES, key) for key in self._keys(RESOURCES)]
        kinds = {one["kind"] for one in batch["objects"]}
        for one in events:
            if (
                one is not None
                and one.mirrored is not None
                and one.mirrored.cluster_uid == batch.get("clusterUID")
                and one.cluster != batch["cluster"]
                and one.kind in kinds
            ):
                details = {"name": one.cluster or "home"}
                status = {"message": f"clusterUID: {one.mirrored.source} mirrors it", "reason": "AlreadyExists"}
                return web.json_response({**status, "details": details}, status=409)
        return None

    def _declare(self, found: Json, batch: Json) -> bool:
        """Write an object, unless a newer version of it is there."""
        source, cluster, cluster_uid = batch["source"], batch["cluster"], batch.get("clusterUID", "")
        key = resource_key(found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"], cluster)
        known = self.topics.event(RESOURCES, key)
        if known is not None and known.uid != found["metadata"]["uid"]:
            self._end(key)
        elif known is not None and known.mirrored is not None and _is_older(found, known.mirrored):
            return False
        there = [Taint.model_validate(one) for one in (found.get("spec") or {}).get("taints", ())]
        wishes = [
            TaintWish(
                key=one.key, effect=one.effect, value=one.value, present=True, generation=1, time=T0, actor=source
            )
            for one in there
        ]
        keeps = batch.get("keepsTaints", False) and found["kind"] == "Node"
        self.topics.declare(
            found, source=source, cluster=cluster, wishes=wishes, cluster_uid=cluster_uid, keeps_taints=keeps
        )
        return True

    def _end(self, key: str) -> None:
        """A pod is gone: its bindings and evictions end."""
        for topic, parsed in ((BINDINGS, BindingKey.parse), (EVICTIONS, EvictionKey.parse)):
            for known in self._keys(topic):
                if parsed(known).workload == key:
                    self.topics.write(topic, known, None)

    def _keys(self, topic: Topic) -> list[str]:
        return [key for found, key in self.topics.records if found is topic]

    def _report(self, event: Json) -> Json:
        report = ConditionReported.model_validate(event["data"])
        target: TargetRef = report.target
        known = self.topics.event(RESOURCES, resource_key(target.kind, "", target.name, target.cluster))
        if known is None:
            status = {"message": f"unknown target {target.key}", "details": {"retryAfterSeconds": 1}}
            return {"outcome": "Refused", "status": status}
        self.reported.append(report)
        if report.workload is None:
            self.topics.condition(
                target,
                report.type,
                report.status.value,
                reason=report.reason,
                message=report.message,
                source=event["source"],
                uid=known.uid,
            )
        elif report.type == HEALTHY:
            pod, healthy = report.workload.name, report.status.value
            self.topics.health(pod, report.workload_uid, target.name, healthy, cluster=target.cluster)
        return {"outcome": "Accepted"}


def _is_older(found: Json, known: Mirrored) -> bool:
    versions = (found["metadata"].get("resourceVersion", ""), known.resource_version)
    return all(version.isdigit() for version in versions) and int(versions[0]) < int(versions[1])


@asynccontextmanager
async def serve_gateway(topics: Topics) -> AsyncIterator[GatewayDouble]:
    """Serve on a free port of loopback."""
    gateway = GatewayDouble(topics)
    app = web.Application(client_max_size=16 << 20)
    app.router.add_post("/v1/mirror", gateway.mirror)
    app.router.add_post("/v1/conditions", gateway.conditions)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        gateway.server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield gateway
    finally:
        await runner.cleanup()
