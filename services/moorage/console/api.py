"""The client of the API in the same process: requests, typed answers, and watches.

A caller's requests have the caller's own credentials. So they pass authentication, roles, admission, guards and the
audit like all others, and a gateway that does not lead forwards them to the one that does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

import orjson
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Scope

from moorage.console.host import PageError, path_of
from moorage.console.sessions import token_of, with_token
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.refs import HOME

EXPLAIN: Final = "/v1/explain"
SIMULATE: Final = "/v1/simulate"
CLUSTERS: Final = "/v1/clusters"
READY: Final = "/readyz/tables"
"""Where the API answers whether all objects can be read."""

JSON: Final = "application/json"
TABLE: Final = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
METADATA: Final = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

_PASSED_ON: Final = ("host", "authorization", "user-agent", "traceparent")
"""Headers of the page's request that the API sees, beside those that say on whose behalf it is made."""

_ON_BEHALF: Final = "impersonate-"
_FAILED: Final = 400
_PROBED: Final = "/api/v1/namespaces"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """The answer to one call."""

    code: int
    document: dict[str, Any]

    @property
    def failed(self) -> bool:
        """Whether it is an error."""
        return self.code >= _FAILED

    @property
    def message(self) -> str:
        """The message of an error."""
        return str(self.document.get("message") or f"the gateway answered {self.code}")

    def check(self) -> None:
        """Check that it is no error. Raises PageError with its code, its message and its causes."""
        if self.failed:
            causes = [str(one.get("message", "")) for one in at(self.document, "details", "causes") or ()]
            again = at(self.document, "details", "retryAfterSeconds") or 0
            raise PageError(self.code, self.message, causes=causes, retry_after=int(again))


@dataclass(frozen=True, slots=True)
class ApiClient:
    """Calls the API of one fleet as one caller."""

    app: ASGIApp
    cluster: str = ""
    """The cluster whose API is called. Empty for the home fleet."""

    scope: Scope = field(default_factory=lambda: {"scheme": "http", "client": None, "server": ("localhost", 80)})
    headers: tuple[tuple[bytes, bytes], ...] = ((b"host", b"localhost"),)

    @classmethod
    def of_request(cls, app: ASGIApp, request: Request, cluster: str) -> ApiClient:
        """Return the client that calls with the credentials of a page's request."""
        own = with_token(request.scope, token_of(request))
        given = MutableHeaders(raw=own["headers"])
        passed_on = tuple(
            (name.encode(), value.encode("latin-1"))
            for name, value in given.items()
            if name in _PASSED_ON or name.startswith(_ON_BEHALF)
        )
        return cls(app, cluster, own, passed_on)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> ApiAnswer:
        """Send a request and return the answer, whatever its code. `body` is sent as JSON; None sends nothing."""
        content = b"" if body is None else orjson.dumps(body)
        sent = [(b"content-type", content_type.encode())] if content else []
        parts: list[bytes] = []
        code = await self._exchange(
            method, path, query, [*sent, (b"accept", accept.encode())], content=content, take=parts.append
        )
        whole = b"".join(parts)
        try:
            document = orjson.loads(whole) if whole else {}
        except orjson.JSONDecodeError:
            document = {"message": whole.decode("utf-8", "replace")[:500]}
        return ApiAnswer(code, document if isinstance(document, dict) else {"items": document})

    async def read(self, path: str, query: Mapping[str, str] | None = None, accept: str = JSON) -> dict[str, Any]:
        """GET a document. Raises PageError if the API refuses it, or it does not exist."""
        answer = await self.call("GET", path, query=query, accept=accept)
        answer.check()
        return answer.document

    async def version(self) -> int:
        """Return the present resource version.

        Raises:
            PageError: 503 if nothing can be shown yet, 404 if the cluster does not exist.
        """
        found = await self.read(_PROBED, {"fieldSelector": "metadata.name=default"})
        return int(at(found, "metadata", "resourceVersion") or 0)

    async def watch(self, path: str, query: Mapping[str, str], accept: str, take: Callable[[bytes], bool]) -> int:
        """Send a watch, and return the code of its answer when it ends.

        `take` is called with each part of the answer. It returns whether there is much more to come, so that others get
        the processor first.
        """
        return await self._exchange("GET", path, {**query, "watch": "true"}, [(b"accept", accept.encode())], take=take)

    async def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: list[tuple[bytes, bytes]],
        *,
        content: bytes = b"",
        take: Callable[[bytes], bool | None],
    ) -> int:
        prefix = path_of(self.cluster)
        scope = {
            **self.scope,
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "root_path": "",
            "method": method,
            "path": unquote(prefix + path),
            "raw_path": (prefix + path).encode(),
            "query_string": urlencode(query or {}).encode(),
            "headers": [*self.headers, *headers, (b"content-length", str(len(content)).encode())],
            "state": {},
        }
        codes = [500]
        unsent: list[bytes] = [content]

        async def receive() -> MutableMapping[str, Any]:
            if not unsent:
                await asyncio.Event().wait()  # the answer is read to its end, whatever becomes of the page's own client
            return {"type": "http.request", "body": unsent.pop(), "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                codes[0] = message["status"]
            elif message["type"] == "http.response.body" and take(message.get("body", b"")):
                await asyncio.sleep(0)

        await self.app(scope, receive, send)
        return codes[0]


def api_path(*parts: str) -> str:
    """Return a path of the API whose parts may contain anything."""
    return "/" + "/".join(quote(part, safe="") for part in parts if part)


_FRESH: Final = 5.0
"""Seconds for which a list of clusters counts. Only the gateway that leads has it; others request it there."""

_PATIENCE: Final = 1.0
"""Seconds for which a page waits for the list. Then it shows those that were known before."""


class ClusterChoice:
    """The names of mirrored clusters."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._names: Sequence[str] = ()
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def names(self) -> Sequence[str]:
        """Return the names of the clusters, as they were a few seconds ago at the latest, if the API answers."""
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at > _FRESH:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read(), name="console-clusters")
            await asyncio.wait({self._reading}, timeout=_PATIENCE)
        return self._names

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The task that reads the list, if one runs."""
        return [self._reading] if self._reading is not None else []

    async def _read(self) -> None:
        answer = await self._client.call("GET", CLUSTERS)
        self._read_at = asyncio.get_running_loop().time()
        if not answer.failed:
            found = {str(one["name"]) for one in answer.document.get("items") or ()}
            self._names = sorted(found - {HOME})
