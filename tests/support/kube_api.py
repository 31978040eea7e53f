"""A kube-apiserver in this process, on loopback, with the faults that a test wants.

The gateway also serves the Kubernetes API, but it decides about nodes and pods itself: nobody can bind a pod, write the
status of a node or hold a deletion there as a kubelet does.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import web
from tests.support.kube_store import OF_KIND, RESOURCES, Change, Json, KubeError, KubeStore, Resource

from moorage.apiserver.machinery.patching.errors import PatchError

_PATCHES: Final = ("application/merge-patch+json", "application/strategic-merge-patch+json")
_APPLY: Final = "application/apply-patch+yaml"
TOKEN: Final = "t0ken"  # noqa: S105 - what the double accepts


@dataclass
class Seen:
    """A request."""

    method: str
    path: str
    params: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]
    peer: Any
    """The client's end of the connection."""

    @property
    def is_watch(self) -> bool:
        return self.params.get("watch") == "true"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Fault:
    """What happens to requests. See `KubeApi.fault`."""

    matches: Callable[[Seen], bool]
    times: float
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    causes: tuple[Json, ...] = ()
    text: str = ""
    """The answer of something in between, with the status 200."""

    cut: bool = False
    """The connection is cut before anything is done."""

    lost: bool = False
    """The request is carried out, and the connection is cut before the answer."""

    before: asyncio.Event | None = None
    """The request is carried out when this is set."""

    after: asyncio.Event | None = None
    """It is carried out, and answered when this is set."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request has come to where it waits, or met the fault."""


class Watch:
    """An open watch."""

    def __init__(self, resource: Resource, namespace: str, transport: asyncio.Transport | None) -> None:
        self.resource = resource
        self.namespace = namespace
        self.transport = transport
        self.queue: asyncio.Queue[Json | None] = asyncio.Queue()
        self.is_behind = False
        """Whether it stays open and shows no change."""

    def offer(self, change: Change) -> None:
        if self.is_behind:
            return
        if change.resource is self.resource and self.namespace in {
            "",
            change.object["metadata"].get("namespace", ""),
        }:
            self.queue.put_nowait({"type": change.type, "object": change.object})


class KubeApi:
    """The server. Use `serve_kube_api`."""

    def __init__(self) -> None:
        self.store = KubeStore()
        self.store.create("Namespace", {"metadata": {"name": "kube-system"}})
        self.server = ""
        self.requests: list[Seen] = []
        self.watches: list[Watch] = []
        self.token = TOKEN
        """The token that it accepts."""

        self.is_away = False
        """Whether each connection is cut."""

        self.ends_watches_at_once = False
        self.held_by_budget: set[str] = set()
        """The names of the pods that a budget does not let go."""

        self.page = 0
        """The longest list, whatever the client asks for. 0 for what it asks for."""

        self.between_pages: Callable[[], None] = lambda: None
        """Called before a page that is not the first."""

        self._faults: list[Fault] = []
        self._pages: dict[str, list[Json]] = {}

    # What a test does.

    def fault(self, method: str, path: str, *, times: float = 1, watches: bool | None = None, **what: Any) -> Fault:
        """Let requests of a method fail whose path ends with a text. See `Fault`."""

        def matches(seen: Seen) -> bool:
            return seen.method == method and seen.path.endswith(path) and watches in {None, seen.is_watch}

        return self.fault_of(matches, times=times, **what)

    def fault_of(self, matches: Callable[[Seen], bool], *, times: float = 1, **what: Any) -> Fault:
        """Let the requests fail that a function picks. See `Fault`."""
        found = Fault(matches, times, **what)
        self._faults.append(found)
        return found

    def heal(self) -> None:
        """Let nothing fail any more."""
        for fault in self._faults:
            for event in (fault.before, fault.after):
                if event is not None:
                    event.set()
        self._faults.clear()
        self.is_away = False

    def seen(self, method: str, path: str = "") -> list[Seen]:
        """The requests of a method so far, whose path ends with a text."""
        return [one for one in self.requests if one.method == method and one.path.endswith(path)]

    @property
    def writes(self) -> list[Seen]:
        """The requests that change something, without those of the election."""
        return [one for one in self.requests if one.method != "GET" and "/leases" not in one.path]

    def cut(self) -> None:
        """Cut the open watches."""
        for watch in self.watches:
            if watch.transport is not None:
                watch.transport.abort()

    def end_watches(self) -> None:
        """End the open watches in order."""
        for watch in self.watches:
            watch.queue.put_nowait(None)

    def go_away(self) -> None:
        """Cut everything, until `heal`."""
        self.is_away = True
        self.cut()

    def bookmark(self) -> None:
        """Send the present version to all watches."""
        for watch in self.watches:
            metadata = {"resourceVersion": str(self.store.version)}
            kind = {"kind": watch.resource.kind, "apiVersion": watch.resource.api_version}
            watch.queue.put_nowait({"type": "BOOKMARK", "object": {**kind, "metadata": metadata}})

    def tell(self, kind: str, event: Json) -> None:
        """Send an event as it is to the watches of a kind."""
        for watch in self.watches:
            if watch.resource is OF_KIND[kind]:
                watch.queue.put_nowait(event)

    def kubeconfig(self, folder: Path) -> str:
        """Write a kubeconfig, and return its path."""
        path = folder / "kubeconfig"
        path.write_bytes(
            orjson.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "double",
                    "clusters": [{"name": "double", "cluster": {"server": self.server}}],
                    "users": [{"name": "bridge", "user": {"token": self.token}}],
                    "contexts": [{"name": "double", "context": {"cluster": "double", "user": "bridge"}}],
                }
            )
        )
        return str(path)

    # What the server does.

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = orjson.loads(raw) if raw else None
        peer = request.get_extra_info("peername")
        seen = Seen(request.method, request.path, dict(request.query), body, dict(request.headers), peer)
        self.requests.append(seen)
        fault = self._met(seen)
        if self.is_away or (fault is not None and fault.cut):
            return _cut(request)
        if fault is not None:
            if fault.before is not None:
                await fault.before.wait()
            elif (answered := _answered(fault)) is not None:
                return answered
        try:
            if seen.is_watch:
                return await self._watch(request, seen)
            answer, status = self._answer(seen), 201 if seen.method == "POST" else 200
        except KubeError as error:
            answer, status = error.status, error.code
        except PatchError as error:
            answer, status = KubeError(error.code, error.reason, str(error)).status, error.code
        if fault is not None and fault.lost:
            return _cut(request)
        if fault is not None and fault.after is not None:
            fault.reached.set()
            await fault.after.wait()
        return web.json_response(answer, status=status, dumps=lambda value: orjson.dumps(value).decode())

    def _met(self, seen: Seen) -> Fault | None:
        for fault in self._faults:
            if fault.times > 0 and fault.matches(seen):
                fault.times -= 1
                if fault.after is None:
                    fault.reached.set()
                return fault
        return None

    def _answer(self, seen: Seen) -> Json:
        if seen.path == "/readyz":
            return {}
        if seen.headers.get("Authorization") != f"Bearer {self.token}":
            raise KubeError(401, "Unauthorized", "Unauthorized")
        resource, namespace, name, subresource = _parsed(seen.path)
        if not name:
            return self._list(resource, namespace, seen) if seen.method == "GET" else self._create(resource, seen)
        if subresource == "binding":
            self.store.bind(name, namespace, seen.body)
            return _success()
        if subresource == "eviction":
            return self._evict(name, namespace, seen.body)
        return self._object(resource.kind, name, namespace, subresource, seen)

    def _create(self, resource: Resource, seen: Seen) -> Json:
        return self.store.create(resource.kind, seen.body, _manager(seen))

    def _object(self, kind: str, name: str, namespace: str, subresource: str, seen: Seen) -> Json:
        store, manager = self.store, _manager(seen)
        content_type = seen.headers.get("Content-Type", "")
        if seen.method == "GET":
            return store.get(kind, name, namespace)
        if seen.method == "DELETE":
            return store.request_deletion(kind, name, namespace, seen.body or {})
        if seen.method == "PUT":
            return store.replace(kind, name, namespace, new=seen.body, subresource=subresource, manager=manager)
        if content_type == _APPLY:
            force = seen.params.get("force") == "true"
            return store.apply(kind, name, config=seen.body, subresource=subresource, manager=manager, force=force)
        if content_type not in _PATCHES:
            raise KubeError(415, "UnsupportedMediaType", f"content type {content_type!r}")
        return store.change(
            kind,
            name,
            namespace,
            patch=seen.body,
            subresource=subresource,
            manager=manager,
            strategic=content_type == _PATCHES[1],
        )

    def _evict(self, name: str, namespace: str, body: Json) -> Json:
        self.store.get("Pod", name, namespace)
        if name in self.held_by_budget:
            text = "Cannot evict pod as it would violate the pod's disruption budget."
            cause = {"reason": "DisruptionBudget", "message": "The disruption budget needs 1 healthy pods"}
            raise KubeError(429, "TooManyRequests", text, [cause])
        self.store.request_deletion("Pod", name, namespace, body.get("deleteOptions") or {})
        return _success()

    def _list(self, resource: Resource, namespace: str, seen: Seen) -> Json:
        limit = int(seen.params.get("limit") or 0) or 1_000_000
        limit = min(limit, self.page or limit)
        metadata: Json = {"resourceVersion": str(self.store.version)}
        if token := seen.params.get("continue"):
            self.between_pages()
            version, _, start = base64.b64decode(token).decode().partition(" ")
            if version not in self._pages:
                raise KubeError(410, "Expired", "The provided continue parameter is too old")
            items, first = self._pages[version], int(start)
            metadata = {"resourceVersion": version}
        else:
            items, first = self.store.listed(resource, namespace), 0
        if len(items) > first + limit:
            version = metadata["resourceVersion"]
            self._pages[version] = items
            metadata["continue"] = base64.b64encode(f"{version} {first + limit}".encode()).decode()
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": items[first : first + limit],
        }

    def expire_pages(self) -> None:
        """Forget the lists that are being read."""
        self._pages.clear()

    async def _watch(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        resource, namespace, _, _ = _parsed(seen.path)
        answer = web.StreamResponse(headers={"content-type": "application/json"})
        watch = Watch(resource, namespace, request.transport)
        try:
            missed = self.store.changes_since(resource, int(seen.params["resourceVersion"]), namespace)
        except KubeError as error:
            watch.queue.put_nowait({"type": "ERROR", "object": error.status})
            watch.queue.put_nowait(None)
        else:
            for change in missed:
                watch.offer(change)
        if self.ends_watches_at_once:
            watch.queue.put_nowait(None)
        await answer.prepare(request)
        self.watches.append(watch)
        self.store.told.append(watch.offer)
        try:
            async with asyncio.timeout(float(seen.params.get("timeoutSeconds") or 1800)):
                while (event := await watch.queue.get()) is not None:
                    await answer.write(orjson.dumps(event) + b"\n")
        except TimeoutError:
            pass
        finally:
            self.watches.remove(watch)
            self.store.told.remove(watch.offer)
        with contextlib.suppress(ConnectionError):
            await answer.write_eof()
        return answer


@asynccontextmanager
async def serve_kube_api() -> AsyncIterator[KubeApi]:
    """Serve on a free port of loopback."""
    api = KubeApi()
    app = web.Application(client_max_size=8 << 20)
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        api.server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield api
    finally:
        api.heal()
        api.end_watches()
        await runner.cleanup()


def _answered(fault: Fault) -> web.Response | None:
    """What is answered without the request being carried out."""
    if fault.status:
        error = KubeError(fault.status, "InternalError", "a fault of the double", fault.causes)
        return web.json_response(error.status, status=fault.status, headers=fault.headers)
    return web.Response(text=fault.text, content_type="text/html") if fault.text else None


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _success() -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}


def _manager(seen: Seen) -> str:
    return seen.params.get("fieldManager") or seen.headers.get("User-Agent", "").partition("/")[0] or "unknown"


def _parsed(path: str) -> tuple[Resource, str, str, str]:
    """The resource, namespace, name and subresource of a path."""
    for resource in RESOURCES:
        if not path.startswith(f"{resource.root}/"):
            continue
        parts = path.removeprefix(f"{resource.root}/").split("/")
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        if parts[0] == resource.plural:
            name, subresource = [*parts[1:], "", ""][:2]
            return resource, namespace, name, subresource
    raise KubeError(404, "NotFound", f"the server could not find the requested resource: {path}")
