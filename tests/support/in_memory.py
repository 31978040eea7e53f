"""An ASGI application that a synchronous client of httpx reaches without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


def transport_to(app: Any) -> httpx.MockTransport:
    """Return a transport whose requests an application answers, as those to `localhost`."""

    async def ask(request: httpx.Request) -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.request(
                request.method,
                request.url.copy_with(host="localhost"),
                content=request.content,
                headers={name: value for name, value in request.headers.items() if name != "host"},
            )
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    return httpx.MockTransport(lambda request: asyncio.run(ask(request)))
