"""Acts of a bridge that may or may not hold its Lease."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.component.bridge.cluster import client_of
from tests.support.kube_api import serve_kube_api
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine.acts import ActQueue
from moorage.bridges.engine.gateway_client import GatewayAddress
from moorage.bridges.engine.loop import BridgeLeadership
from moorage.bridges.engine.plan import Link
from moorage.bridges.kube.client import ClusterAccess
from moorage.bridges.kube.election import Election


@virtual_time
async def test_an_act_is_not_lost_while_a_renewal_of_the_lease_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leads again before it has noticed that it did not, so nothing makes it begin anew."""
    holds, done = [True], list[str]()
    begun = list[None]()
    async with serve_kube_api() as api:
        link = Link(ClusterAccess(api.kubeconfig(tmp_path)), GatewayAddress("http://127.0.0.1:1"), "kube-system")
        client = client_of(api)
        leadership = BridgeLeadership(client, link, "lease", is_acting=True, begins=lambda: begun.append(None))

        async def work(key: str) -> None:
            done.append(key)

        queue = ActQueue("test")
        tasks = [asyncio.create_task(one) for one in (leadership.run(), queue.run(leadership.checked(work)))]
        await until(lambda: leadership.may_act)
        with monkeypatch.context() as late:
            late.setattr(Election, "leading", property(lambda _: holds[0]))
            holds[0] = False
            queue.add("pod")
            await until(lambda: bool(queue._later))
            assert done == []
            holds[0] = True
            await until(lambda: done == ["pod"], seconds=5)
        assert len(begun) == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
