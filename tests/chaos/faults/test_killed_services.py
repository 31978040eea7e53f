"""Every service or chain runs as processes of its own, and they are killed while the deadlines run.

Whatever is killed whenever: the same decisions, none lost, none double, none early.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import pytest
import yaml
from tests.chaos.faults.fleet import (
    PATIENCE,
    TOPICS,
    check_decisions,
    copies_of_each,
    copies_of_each_chain,
    documents,
    events,
    running,
)
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.from_kafka import read_history
from tests.support.brokers import Broker
from tests.support.live import collect
from tests.support.waiting import until

from moorage.cli.api.topics import BEGINNING, TopicReader
from moorage.cli.local import services
from moorage_schemas.eviction import EvictionState
from moorage_schemas.topics import BINDINGS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

ROUNDS = len(services.names())
"""Each service is killed once, alone and beside another process of its own; a chain several times."""

FORMS = {
    "one of each": copies_of_each(1),
    "two of each": copies_of_each(2),
    "a chain": copies_of_each_chain(1),
    "two of a chain": copies_of_each_chain(2),
}


@pytest.mark.parametrize("form", FORMS)
async def test_killed_at_any_time(broker: Broker, topic_prefix: str, tmp_path: Path, form: str) -> None:
    copies = FORMS[form]
    chance = random.Random(max(copies.values()))  # noqa: S311 - the same moments in each run, as far as machines allow
    hosts = [f"h{number}" for number in range(ROUNDS)]
    prefix = f"{topic_prefix}kill"
    async with running(broker.bootstrap, prefix, tmp_path, copies) as fleet:
        await fleet.moorage("apply", "-f", "-", text=yaml.dump_all([one for host in hosts for one in documents(host)]))
        async with TopicReader(broker.bootstrap, prefix, TOPICS, BEGINNING) as reader:
            await collect(reader, lambda seen: sum(one.topic is BINDINGS for one in seen) >= 3 * ROUNDS, 90)
            victims = [victim for victim, _ in zip(itertools.cycle(copies), hosts, strict=False)]
            chance.shuffle(victims)
            for host, victim in zip(hosts, victims, strict=True):
                await fleet.moorage("taint", "node", host, "key1=value1:NoExecute")
                # Nothing to wait for: the moment of the kill is what is drawn, from the wish to beyond the deadline.
                await asyncio.sleep(chance.uniform(0, PATIENCE.total_seconds() / 2))
                fleet.kill(victim, chance.randrange(2))
            await collect(reader, lambda found: len(events(found, EvictionState.COMPLETED)) >= 2 * ROUNDS, 120)
        for host in hosts:
            await until(lambda host=host: fleet.is_gone(f"patient-{host}"))  # type: ignore[misc]  # mypy loses the default
        # From the beginning, so that a double that came later is seen as well.
        async with TopicReader(broker.bootstrap, prefix, TOPICS, BEGINNING) as reader:
            every = await reader.to_end()
    assert {name.rpartition("-")[0] for name in fleet.crashes} == set(copies)
    check_decisions(every, hosts)
    assert [str(violation) for violation in check(await read_history(broker.bootstrap, prefix))] == []
