"""Calls the API in the same process, with the user's own credentials.

So what a page does passes authentication, roles, admission, guards and the audit like everybody's requests, and a
gateway that does not lead forwards it to the one that does. On a page of a cluster, it calls the API of that cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

import orjson
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp

from moorage.core.apimachinery.unstructured import at
from moorage.gateway.console.sessions import token_of, with_token
from moorage.gateway.errors import Cause, StatusError
from moorage.gateway.http.cluster_paths import cluster_of, path_of

_PASSED_ON: Final = ("host", "authorization", "user-agent", "traceparent")
"""Headers of the page's request that the API sees, beside those that say on whose behalf it is made."""

_ON_BEHALF: Final = "impersonate-"
_FAILED: Final = 400


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """The answer to one call."""

    code: int
    document: dict[str, Any]

    @property
    def failed(self) -> bool:
        """Whether it is an error."""
        return self.code >= _FAILED

    def check(self) -> None:
        """Check that it is none.

        Raises:
            StatusError: the error, with its code, its message and its causes.
        """
        if self.failed:
            causes = at(self.document, "details", "causes") or ()
            raise StatusError(self.code, self.message, causes=[_cause(one) for one in causes])

    @property
    def message(self) -> str:
        """The message of an error."""
        return str(self.document.get("message") or f"the gateway answered {self.code}")


class OwnApi:
    """Calls the API for one request of a page.

    Args:
        app: the API.
        request: the page's request.
    """

    def __init__(self, app: ASGIApp, request: Request) -> None:
        self._app = app
        self._request = request

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> ApiAnswer:
        """Send a request and return the answer, whatever its code.

        Args:
            method: the HTTP method.
            path: the path, with its parts quoted (`api_path`).
            query: the parameters.
            body: what is sent as JSON. None sends nothing.
            content_type: how the body is to be read.
        """
        content = b"" if body is None else orjson.dumps(body)
        own = with_token(self._request.scope, token_of(self._request))
        given = MutableHeaders(raw=own["headers"])
        passed_on = [
            (name.encode(), value.encode("latin-1"))
            for name, value in given.items()
            if name in _PASSED_ON or name.startswith(_ON_BEHALF)
        ]
        sent = [(b"accept", b"application/json"), (b"content-length", str(len(content)).encode())]
        sent += [(b"content-type", content_type.encode())] if content else []
        scope = {
            **own,
            "method": method,
            "path": unquote(path),
            "raw_path": f"{path_of(cluster_of(self._request))}{path}".encode(),
            "query_string": urlencode(query or {}).encode(),
            "headers": [*passed_on, *sent],
        }
        answer = _Collected(content)
        await self._app(scope, answer.receive, answer.send)
        try:
            document = orjson.loads(answer.body) if answer.body else {}
        except orjson.JSONDecodeError:
            document = {"message": answer.body.decode("utf-8", "replace")[:500]}
        return ApiAnswer(answer.code, document if isinstance(document, dict) else {"items": document})


def _cause(told: Mapping[str, Any]) -> Cause:
    return Cause(str(told.get("reason", "")), str(told.get("message", "")), str(told.get("field", "")))


def api_path(*parts: str) -> str:
    """A path of the API whose parts may contain anything."""
    return "/" + "/".join(quote(part, safe="") for part in parts if part)


class _Collected:
    """The two ends of an ASGI exchange whose request is there already and whose answer is kept."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self.code = 500
        self._parts: list[bytes] = []

    @property
    def body(self) -> bytes:
        """The body of the answer."""
        return b"".join(self._parts)

    async def receive(self) -> MutableMapping[str, Any]:
        """See ASGI."""
        content, self._content = self._content, None
        if content is None:
            await asyncio.Event().wait()  # the page waits for the whole answer, whatever becomes of its own client
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """See ASGI."""
        if message["type"] == "http.response.start":
            self.code = message["status"]
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))
