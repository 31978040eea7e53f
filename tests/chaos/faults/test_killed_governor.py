"""The governor is killed while nodes wait for their zone's tokens: nothing is granted twice, too soon, or never."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from tests.chaos.faults.fleet import Fleet, running
from tests.support.brokers import Broker
from tests.support.live import collect

from moorage.cli.api.client import Client
from moorage.cli.api.topics import BEGINNING, Seen, TopicReader
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, to_structured
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import TAINTS, ZONE_GRANTS, ZONE_MEMBERS
from moorage_schemas.zone import NoExecuteGranted, ZoneMembered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

RATE, WAIT = 1.0, 1.0
NODES = 10
ENVIRONMENT = {
    "MOORAGE_NODE_EVICTION_RATE": str(RATE),
    "MOORAGE_NODE_MONITOR_PERIOD": f"{WAIT}s",
    "MOORAGE_NODE_MONITOR_GRACE_PERIOD": "0",
}


def zone(name: str) -> list[str]:
    return [f"{name}{number}" for number in range(NODES)]


async def report(fleet: Fleet, names: list[str], status: ConditionStatus) -> None:
    """What the nodes' probe says, all at once."""
    now = datetime.now(UTC)
    events = []
    for name in names:
        target = TargetRef(kind=TargetKind.NODE, name=name)
        event = ConditionReported(target=target, type="Ready", status=status, observed_time=now, source="kubelet")
        meta = Meta(id=f"{name}-{now.isoformat()}", source="kubelet", type=event.event_type, time=now)
        events.append(to_structured(meta, event))

    def send() -> None:
        with Client(fleet.server) as client:
            client.report(events)

    await asyncio.to_thread(send)


def evicting(seen: list[Seen]) -> set[str]:
    """The nodes that have got the taint that evicts."""
    return {
        one.event.target.name
        for one in seen
        if isinstance(one.event, TargetTainted) and any(taint.effect == "NoExecute" for taint in one.event.taints)
    }


async def until_evicting(reader: TopicReader, seen: list[Seen], count: int) -> None:
    """Read on until so many nodes have the taint that evicts."""
    known = evicting(seen)
    if len(known) < count:
        seen += await collect(reader, lambda more: len(known | evicting(more)) >= count, 60)


def next_tick(since: datetime) -> datetime:
    """The first of the times at which nodes are granted that comes after an incident has begun."""
    return datetime.fromtimestamp((since.timestamp() // WAIT + 1) * WAIT, UTC)


async def test_the_governor_killed_while_nodes_wait(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - the same moments in each run, as far as machines allow
    lost, well = zone("a"), zone("b")
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": name[0]}},
        }
        for name in (*lost, *well)
    ]
    prefix = f"{topic_prefix}zones"
    copies = {"condition-ingest": 1, "taint-manager": 1, "governor": 2}
    topics = (TAINTS, ZONE_MEMBERS, ZONE_GRANTS)
    async with running(broker.bootstrap, prefix, tmp_path, copies, **ENVIRONMENT) as fleet:
        await fleet.moorage("apply", "-f", "-", text=yaml.dump_all(nodes))
        async with TopicReader(broker.bootstrap, prefix, topics, BEGINNING) as reader:
            await collect(reader, lambda seen: sum(one.topic is ZONE_MEMBERS for one in seen) >= len(nodes), 60)
            await report(fleet, lost, ConditionStatus.FALSE)
            seen: list[Seen] = []
            for count in range(1, NODES + 1):
                await until_evicting(reader, seen, count)
                if count % 3 == 0:
                    # Nothing to wait for: the moment of the kill is what is drawn.
                    await asyncio.sleep(chance.uniform(0, 1 / RATE))
                    for which in (0, 1):
                        fleet.kill("governor", which)
        async with TopicReader(broker.bootstrap, prefix, topics, BEGINNING) as reader:
            every = await reader.to_end()
    assert fleet.crashes.keys() == {"governor-0", "governor-1"}
    assert evicting(every) == set(lost)
    grants = [one.event for one in every if isinstance(one.event, NoExecuteGranted)]
    assert sorted(grant.target.name for grant in grants) == lost, "each once"
    began = {
        one.event.target.name: one.event.since
        for one in every
        if isinstance(one.event, ZoneMembered) and one.event.incident
    }
    times = sorted(grant.granted_time for grant in grants)
    for before, after in itertools.pairwise(times):
        assert after - before >= timedelta(seconds=1 / RATE)
    for grant in grants:
        assert grant.granted_time >= next_tick(began[grant.target.name])
