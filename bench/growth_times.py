"""The times and limits of a growth run: what is divided by six, and what is shortened further so that it comes round.

A process behaves in its second year as on its first day only if everything that it keeps is dropped again. So every
time after which something is dropped must pass several times in the run. `Pace` has them all:

- Times of seconds and minutes are divided by `FASTER`: heartbeats, grace periods, holds, tolerations, rates, intervals.
- Times of hours and days, and the ten minutes for which compacted topics keep everything, become multiples of one
  `cycle`, a sixtieth of the run: retentions, segments, the ages of tombstones, of transactional ids and of what the
  query worker indexes. None is longer than eight cycles, so each comes round at least seven times.
- Limits of numbers, such as the changes that the gateway keeps for watches, are reduced so that they are reached.
- Times that only protect against slow machines are left alone, because nothing is kept for as long as they last:
  sessions, transactions, the watchdog.

Constants of the code are changed in each child process before it imports what uses them. For this the file is itself
the program of the children: `python bench/growth_times.py CONSTANTS run --with-parent timer`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FunctionType
from typing import IO, Any, Final

from moorage.cli.local.supervisor import Process
from moorage.runtime.kafka.admin.topic_settings import SettingDifference
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import LASTING, RECORD, TOPICS, Cleanup, Topic

FASTER: Final = 6
"""By how much times of seconds and minutes are divided: two hours pass in twenty minutes."""

CYCLES: Final = 60
"""The number of cycles in a run."""

SHORTEST_CYCLE: Final = 5.0
"""Seconds. With shorter times the broker and the services would only clean up."""


@dataclass(frozen=True)
class Pace:
    """The times of a run.

    Args:
        seconds: the duration of the run.
    """

    seconds: float

    @property
    def cycle(self) -> float:
        """Seconds of one cycle."""
        return max(SHORTEST_CYCLE, self.seconds / CYCLES)

    def settings(self, bootstrap: str, partitions: int) -> Settings:
        """The settings of the fleet. Those that decide become its first MoorageConfiguration."""
        plain = Settings.model_construct()
        return Settings(
            bootstrap_servers=bootstrap,
            topic_prefix="growth",
            partitions=partitions,
            gateway_port=0,
            node_monitor_grace_period=plain.node_monitor_grace_period / FASTER,
            cluster_monitor_grace_period=plain.cluster_monitor_grace_period / FASTER,
            managed_cluster_monitor_grace_period=plain.managed_cluster_monitor_grace_period / FASTER,
            node_monitor_period=plain.node_monitor_period / FASTER,
            node_eviction_rate=plain.node_eviction_rate * FASTER,
            secondary_node_eviction_rate=plain.secondary_node_eviction_rate * FASTER,
            resource_eviction_rate=plain.resource_eviction_rate * FASTER,
            disruption_budget_patience=plain.disruption_budget_patience / FASTER,
            graceful_eviction_timeout=plain.graceful_eviction_timeout / FASTER,
            eviction_retention=2 * self.cycle,
        )

    def environment(self) -> dict[str, str]:
        """The settings of a process that `settings` does not pass on to the children, as variables."""
        plain = Settings.model_construct()
        return {
            "MOORAGE_RECONCILE_INTERVAL": f"{plain.reconcile_interval / FASTER:g}",
            "MOORAGE_CLOCK_SKEW": f"{plain.clock_skew / FASTER:g}",
        }

    def broker(self) -> dict[str, str]:
        """Settings of the broker by their names in Kafka. Its own topics have no settings of their own."""
        cycle = round(self.cycle * 1000)
        return {
            "log.cleaner.backoff.ms": str(5000 // FASTER),
            "log.retention.check.interval.ms": str(cycle // 2),
            "log.segment.delete.delay.ms": str(cycle // 2),
            "log.roll.ms": str(2 * cycle),
            "log.cleaner.delete.retention.ms": str(4 * cycle),
            # Kafka's defaults are 7 d for the first two and one day for the third.
            "transactional.id.expiration.ms": str(8 * cycle),
            "offsets.retention.minutes": "1",
            "producer.id.expiration.ms": str(4 * cycle),
            "transaction.remove.expired.transaction.cleanup.interval.ms": str(cycle // 2),
            "producer.id.expiration.check.interval.ms": str(cycle // 2),
            "offsets.retention.check.interval.ms": str(cycle),
            # The log of the broker's own controller: Kafka's defaults are 7 d, 7 d and 1 h.
            "metadata.max.retention.ms": str(4 * cycle),
            "metadata.log.segment.ms": str(2 * cycle),
            "metadata.log.max.snapshot.interval.ms": str(2 * cycle),
            "metadata.max.idle.interval.ms": str(500 // FASTER),
        }

    def topic(self, topic: Topic) -> dict[str, str]:
        """The times of a topic. Sizes are those of the table."""
        cycle = round(self.cycle * 1000)
        slow = topic.segments in (LASTING, RECORD)
        # A tombstone waits for its segment to be closed and compacted, twice, and for its own time in between.
        found = {"segment.ms": str(cycle if slow else cycle // 2)}
        if topic.cleanup is Cleanup.DELETE:
            days = topic.retention_ms // (24 * 60 * 60 * 1000)
            found["retention.ms"] = str((2 if days <= 1 else 4 if days <= 7 else 6) * cycle)
        else:
            found["min.compaction.lag.ms"] = str(cycle // 4)
            found["max.compaction.lag.ms"] = str(cycle if slow else cycle // 2)
            # Processes read everything anew when they were behind for half of this.
            found["delete.retention.ms"] = str(max(3 * cycle, 60_000))
        return found

    def changes(self, settings: Settings) -> list[SettingDifference]:
        """The settings of all topics that differ from the table."""
        return [
            SettingDifference(topic.name(settings.topic_prefix), name, topic.config()[name], value, chosen=True)
            for topic in TOPICS
            for name, value in self.topic(topic).items()
        ]

    def constants(self) -> dict[str, float]:
        """Constants of the code by `module:name`. Durations are in seconds."""
        share = min(1.0, self.cycle / 80)  # limits of numbers are reached in the first quarter of the run
        return {
            "moorage.insight.query.chain_index:YOUNG_SECONDS": 2 * self.cycle,
            "moorage.insight.query.query_tables:_TOMBSTONES": round(2000 * share),
            "moorage.workers.condition_ingest.state:UNBOUND_KEPT": 600 / FASTER / 10,
            "moorage.workers.condition_ingest.state:UNREPORTED_KEPT": 2 * self.cycle,
            "moorage.decide.conditions.heartbeats:LEAST_OFTEN": 300 / FASTER,
            "moorage.apiserver.storage.history:KEPT": round(5000 * share),
            "moorage.apiserver.controllers.machine_sets:_REMEMBERED": round(1000 * share),
            "moorage.workers.placement.pods.binder:_REMEMBERED": round(1000 * share),
            "moorage.runtime.process.memory:MOST": round(1000 * share),
        }

    def described(self) -> dict[str, Any]:
        """Everything that is changed, for the record of the run."""
        return {
            "divided_by": FASTER,
            "cycle_s": round(self.cycle, 1),
            "environment": self.environment(),
            "broker": self.broker(),
            "topics": {topic.short: self.topic(topic) for topic in TOPICS},
            "constants": self.constants(),
        }


class Launch:
    """Starts the children of a stack with the constants of a pace. See `supervisor.Launch`."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    async def __call__(
        self, arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None
    ) -> Process:
        """Start `moorage` with these arguments."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, json.dumps(self._pace.constants()), *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE if output is None else output,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **environment, **self._pace.environment(), "PYTHONPATH": str(Path(__file__).parents[1])},
            start_new_session=True,
        )


def set_constants(constants: Mapping[str, float]) -> None:
    """Change constants of modules. Call it before anything else imports the modules that use them.

    Raises:
        AttributeError: a constant does not exist.
    """
    for place, value in constants.items():
        name, _, constant = place.partition(":")
        module = importlib.import_module(name)
        before = getattr(module, constant)
        after = timedelta(seconds=value) if isinstance(before, timedelta) else type(before)(value)
        setattr(module, constant, after)
        # A constant that is the default of a parameter was read when the method was defined.
        for found in vars(module).values():
            method = vars(found).get("__init__") if isinstance(found, type) else None
            if isinstance(method, FunctionType) and method.__defaults__:
                method.__defaults__ = tuple(after if one is before else one for one in method.__defaults__)


def main() -> None:
    """Run `moorage` as a child of the run."""
    from moorage.cli import main as moorage  # noqa: PLC0415 - after the constants

    set_constants(json.loads(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    moorage()


if __name__ == "__main__":
    main()
