"""`moorage simulate` against the real thing: it leaves no trace, and what it says comes true."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiokafka import TopicPartition
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.live import Live, running
from tests.support.waiting import until

from moorage.cli.api.topics import BEGINNING, TopicReader
from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.topics import EVICTIONS, TOPICS

pytestmark = pytest.mark.kafka

SECONDS = 4
NODES = ("a1", "a2", "b1", "b2", "b3")
LATE = 3.0
"""Seconds by which a busy machine may be late."""

Trace = dict[str, Any]


def fleet() -> list[dict[str, Any]]:
    """Five nodes in two zones, and ten pods that stay for some seconds where they must leave."""
    keys = ("bad", "node.kubernetes.io/unreachable")
    lasting = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "c", "image": "web:1"}],
            "tolerations": [{"key": key, **lasting} for key in keys],
        },
    }
    spec = {"replicas": 10, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return [
        *(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": name[0]}},
            }
            for name in NODES
        ),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """A Moorage whose pods are placed and whose nodes are ready."""
    given = {"node_monitor_period": 0.5, "node_eviction_rate": 1.0}
    async with running(broker.bootstrap, f"{RUN}-simulate", tmp_path_factory.mktemp("simulate"), **given) as found:
        found.env |= {f"MOORAGE_{name.upper()}": str(value) for name, value in given.items()}
        await found.here("apply", "-f", "-", text=yaml.dump_all(fleet()))
        for name in NODES:
            await found.here("report", f"node/{name}", "Ready=True")
        await until(lambda: placed(found))
        yield found


async def where(live: Live) -> dict[str, str]:
    """Where each pod is."""
    items = (await live.here("get", "pods", "-o", "json")).json["items"]
    return {f"Pod/default/{one['metadata']['name']}": one["spec"].get("nodeName", "") for one in items}


async def placed(live: Live) -> bool:
    """Whether all ten are placed."""
    found = await where(live)
    return len(found) == 10 and all(found.values())


async def trace(live: Live) -> Trace:
    """Everything by which a reader could be noticed: ends of partitions, groups, their members and offsets."""
    settings = Settings(bootstrap_servers=live.bootstrap, topic_prefix=live.prefix)
    consumer, admin = clients.table_consumer(settings, client_id="trace"), clients.admin_client(settings)
    await consumer.start()
    try:
        await admin.start()
        tps = [TopicPartition(topic.name(live.prefix), p) for topic in TOPICS for p in range(6)]
        groups = sorted(name for name, *_ in await admin.list_consumer_groups() if name.startswith(live.prefix))
        offsets = {name: await admin.list_consumer_group_offsets(name) for name in groups}
        ends = await consumer.end_offsets(tps)
    finally:
        await admin.close()
        await consumer.stop()
    return {
        "ends": ends,
        "groups": {name: {tp: at.offset for tp, at in found.items()} for name, found in offsets.items()},
    }


async def at_rest(live: Live) -> Trace:
    """The trace once nothing changes any more: offsets may follow what rests on them a little later."""
    seen: list[Trace] = [await trace(live)]

    async def still() -> bool:
        async with TopicReader(live.bootstrap, live.prefix) as reader:
            quiet = 0
            async for batch in reader.batches():  # each waits a quarter of a second for records
                quiet = 0 if batch else quiet + 1
                if quiet >= 8:
                    break
        seen.append(await trace(live))
        return seen[-1] == seen[-2]

    await until(still)
    return seen[-1]


async def evicted(live: Live, since: datetime) -> dict[tuple[str, str], datetime]:
    """Which evictions were requested since then, and when."""
    async with TopicReader(live.bootstrap, live.prefix, [EVICTIONS], BEGINNING) as reader:
        found = await reader.to_end()
    return {
        (str(seen.event.workload), str(seen.event.target)): seen.event.decided_time
        for seen in found
        if isinstance(seen.event, EvictionDecided)
        and seen.event.state is EvictionState.REQUESTED
        and seen.event.decided_time >= since
    }


async def comes_true(live: Live, said: dict[str, Any], *commands: tuple[str, ...]) -> None:
    """Do to the fleet what was simulated; exactly that happens, as long after the change as was said."""
    taken = datetime.fromisoformat(said["taken"])
    wanted = {(one["workload"], one["target"]): datetime.fromisoformat(one["at"]) - taken for one in said["leaving"]}
    assert wanted
    assert {one["state"] for one in said["leaving"]} == {"Completed"}
    began = datetime.now(taken.tzinfo)
    for words in commands:
        await live.here(*words)

    async def all_gone() -> bool:
        return set(await evicted(live, began)) >= set(wanted)

    await until(all_gone)
    await at_rest(live)
    found = await evicted(live, began)
    assert set(found) == set(wanted)
    for key, when in found.items():
        late = ((when - began) - wanted[key]).total_seconds()
        assert -0.5 <= late <= LATE, f"{key}: {late} s after what was said"
    pods = await where(live)
    ends = {one["workload"]: one["to"]["targets"] for one in said["decisions"]}
    assert {name: [f"Node/{pods[name]}"] for name in ends} == ends


async def test_it_leaves_no_trace(live: Live) -> None:
    before = await at_rest(live)
    done = await live.moorage("simulate", "--outage", "zone=a", "--taint", "node/b1=bad:NoExecute", "-o", "json")
    assert done.json["summary"]["leaving"] > 0
    assert await trace(live) == before


async def test_a_taint_does_what_was_said(live: Live) -> None:
    said = (await live.here("simulate", "--taint", "node/b2=bad=yes:NoExecute", "-o", "json")).json
    assert {one["target"] for one in said["leaving"]} == {"Node/b2"}
    await comes_true(live, said, ("taint", "node", "b2", "bad=yes:NoExecute"))


async def test_an_outage_of_a_zone_does_what_was_said(live: Live) -> None:
    said = (await live.here("simulate", "--outage", "zone=a", "-o", "json")).json
    assert {one["target"] for one in said["leaving"]} <= {"Node/a1", "Node/a2"}
    assert [one["zone"] for one in said["zones"]] == ["/a"]
    await comes_true(live, said, *(("report", f"node/{name}", "Ready=Unknown") for name in ("a1", "a2")))


async def test_what_the_gateway_refuses_is_refused_here_in_its_words(live: Live) -> None:
    done = await live.here("simulate", "--delete", "node/none", code=1)
    assert done.err == 'Error from server (NotFound): nodes "none" not found\n'
    done = await live.here("simulate", "--taint", "node/b2=bad=no:NoExecute", code=1)
    assert "already has bad taint(s) with same effect(s) and --overwrite is false" in done.err
