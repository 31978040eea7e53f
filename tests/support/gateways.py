"""A gateway in the process of a test, on a real Kafka."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx

from moorage.apiserver.authorization.default_roles import default_bindings, default_roles
from moorage.apiserver.http.app import Front
from moorage.apiserver.rbac.rules import aggregated_rules, is_aggregated, rules_of
from moorage.apiserver.server import serve
from moorage.runtime.settings.process_settings import Settings


@contextlib.asynccontextmanager
async def running_gateway(
    settings: Settings, *, front: Front | None = None, **client_options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway that is ready, and a client of it."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(settings, ready=address.set_result, front=front))
    try:
        futures: list[asyncio.Future[Any]] = [task, address]
        done, _ = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED, timeout=120)
        assert done, "not ready within 120 s"
        if address not in done:
            await task
        async with httpx.AsyncClient(base_url=address.result(), timeout=120, **client_options) as client:
            yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def has_its_roles(client: httpx.AsyncClient) -> bool:
    """Whether a gateway has written all that it writes by itself into a new fleet: roles, and what they aggregate."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    roles = (await client.get(f"{rbac}/clusterroles")).json().get("items") or []
    bindings = (await client.get(f"{rbac}/clusterrolebindings")).json().get("items") or []
    names = {one["metadata"]["name"] for one in (*roles, *bindings)}
    if not {one["metadata"]["name"] for one in (*default_roles(), *default_bindings())} <= names:
        return False
    return all(aggregated_rules(one, roles) == list(rules_of(one.get("rules"))) for one in roles if is_aggregated(one))
