"""A fleet whose processes are replaced one after the other, forwards to another version and back, under load.

Two processes of each service and two gateways run. Each one is stopped in order and started as the other version, while
the load of the rounds goes on. When half of them are replaced, one of each version is killed, and the command line and
the SDK of each version speak to the gateway of the other. At the end the checker of the rounds reads all topics.

Meanwhile reports about one node, one after the other, measure how long a decision takes: from the report to its taint.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.chaos.faults.cluster import delete_topics
from tests.chaos.faults.load import Load, differing
from tests.chaos.faults.members import Member, Members
from tests.chaos.faults.record import Recorder
from tests.chaos.faults.round import HISTORY, PARTITIONS, RULES, STILL
from tests.chaos.faults.versions import Version
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.history import History
from tests.chaos.seeded.saved import dumps

from moorage.cli.local import services
from moorage.cli.local.stack import free_ports
from moorage.runtime.chains import grouped
from moorage.runtime.kafka.admin.topic_settings import SettingDifference, change
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.topics import DEAD_LETTERS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, TOPICS

COPIES = 2
FORMS = ("chain", "alone")
"""Whether the services of the chain run as one process or each in its own."""

PULSE = "pulse"
"""The node that the measuring reports are about. It is empty, and its condition evicts nothing."""

_PRESSURE = "DiskPressure"
_READY_WITHIN = 180.0
_QUIET_WITHIN = 120.0
_DECIDED_WITHIN = 120.0
_UNDISTURBED = 4.0
"""Seconds before the first replacement, to compare with."""

_BETWEEN = 0.25  # seconds between two measuring reports
_POLL = 0.1
_LETTERS_SHOWN = 5
_APPEND_TIME = ("message.timestamp.type", "CreateTime", "LogAppendTime")

_RUNNING = {
    **RULES,
    "MOORAGE_PARTITIONS": str(PARTITIONS),
    "MOORAGE_LOG_FORMAT": "json",
}


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a decision took."""

    due: float
    """When it could have been made, in seconds since the epoch."""

    seconds: float


@dataclass
class Upgrade:
    """How a drill went."""

    form: str
    seed: int
    steps: list[tuple[str, float, float]] = field(default_factory=list)
    """Each process that was replaced or killed, and when that began and ended, in seconds since the epoch."""

    delays: dict[str, list[Delay]] = field(default_factory=dict)
    """How long decisions took: `taint` after a report, `eviction` after its deadline, `placement` after the pod."""

    records: int = 0
    crashes: dict[str, list[int]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    history: History | None = None

    @property
    def restarts(self) -> int:
        """How many processes were replaced or killed."""
        return len(self.steps)

    def longest(self, what: str, since: float = 0.0, until: float = float("inf")) -> float:
        """The longest time that a decision took which was due within a time, in seconds."""
        found = (one.seconds for one in self.delays[what] if one.due <= until and one.due + one.seconds >= since)
        return max(found, default=0.0)

    def table(self) -> str:
        """The longest times during each replacement as a Markdown table."""
        names = list(self.delays)
        lines = [f"| {self.form}: replaced | seconds | {' | '.join(names)} |", f"|---|{'---:|' * (len(names) + 1)}"]
        for step, since, until in self.steps:
            numbers = (until - since, *(self.longest(name, since, until) for name in names))
            lines.append(f"| {step} | {' | '.join(f'{number:.2f}' for number in numbers)} |")
        return "\n".join(lines)

    def figures(self) -> dict[str, Any]:
        """The results as JSON takes them."""
        return {
            "form": self.form,
            "seed": self.seed,
            "longest_seconds": {name: round(self.longest(name), 3) for name in self.delays},
            "longest_undisturbed_seconds": {
                name: round(self.longest(name, until=self.steps[0][1]), 3) for name in self.delays
            },
            "measured": {name: len(found) for name, found in self.delays.items()},
            "restarts": self.restarts,
            "records": self.records,
            "crashes": self.crashes,
            "violations": self.violations,
            "seconds": round(self.seconds),
        }

    def judge(self, history: History, lost: Sequence[str]) -> None:
        """Check all that was written.

        Args:
            history: all of it.
            lost: the inputs that were never accepted.
        """
        self.history = history
        self.records = len(history.entries)
        self.delays |= {"eviction": _evictions(history), "placement": _placements(history)}
        self.violations += [str(one) for one in check(history)]
        self.violations += [f"never accepted: {one}" for one in lost]
        self.violations += [f"{name} ended by itself with {codes}" for name, codes in self.crashes.items()]
        if not history.quiet:
            self.violations.append(f"not at rest within {_QUIET_WITHIN:.0f} s")
        letters = [entry.value for entry in history.entries if entry.topic == DEAD_LETTERS.short and entry.value]
        self.violations += [f"dead letter: {value[:300]!r}" for value in letters[:_LETTERS_SHOWN]]

    def save(self, folder: Path) -> None:
        """Write the history for `ops/soak --check`."""
        if self.history is not None:
            (folder / HISTORY).write_text(dumps(self.history, f"upgrade, {self.form}, seed {self.seed}"))


class Pulse:
    """Reports about one node, each after the decision on the one before it, with the time that it took."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._present = False
        self._changed = asyncio.Event()
        self._decided = asyncio.Event()
        self.measured: list[Delay] = []

    def heard(self, topic: str, record: Any) -> None:
        """Take note of the node's taints."""
        if topic == TAINTS.short and record.value is not None:
            event = json.loads(record.value)
            if event["target"]["name"] == PULSE:
                self._present = any(taint["key"].endswith("disk-pressure") for taint in event["taints"])
                self._changed.set()

    async def run(self) -> None:
        """Report until cancelled.

        Raises:
            TimeoutError: a report was not decided on.
        """
        while True:
            wanted, sent = not self._present, time.time()
            await self._load.report(PULSE, ConditionStatus.TRUE if wanted else ConditionStatus.FALSE, _PRESSURE)
            async with asyncio.timeout(_DECIDED_WITHIN):
                while self._present is not wanted:
                    self._changed.clear()
                    await self._changed.wait()
            self.measured.append(Delay(sent, time.time() - sent))
            self._decided.set()
            await asyncio.sleep(_BETWEEN)

    async def until_decided(self, since: float) -> None:
        """Return when a report that was sent after a time is decided on, so that those before it are measured."""
        while not self.measured or self.measured[-1].due < since:
            self._decided.clear()
            await self._decided.wait()


class Drill:
    """The processes, and what is done to them."""

    def __init__(self, form: str, bootstrap: str, prefix: str, folder: Path, start_as: Version) -> None:
        alone = [[name] for name in services.names()]
        groups = alone if form == "alone" else [list(names) for names in grouped(services.names()).values()]
        worked = [(group, copy) for group in groups for copy in range(COPIES)]
        worked += [([services.WEBHOOKS], 0), ([services.QUERY], 0)]
        worked += [([services.GATEWAY], copy) for copy in range(COPIES)]
        ports = free_ports(2 * len(worked))
        query = next(port for (group, _), port in zip(worked, ports, strict=False) if group == [services.QUERY])
        self.prefix = prefix
        self.environment = {
            **_RUNNING,
            "MOORAGE_BOOTSTRAP_SERVERS": bootstrap,
            "MOORAGE_TOPIC_PREFIX": prefix,
            "MOORAGE_QUERY_SERVER": f"http://127.0.0.1:{query}",
        }
        self.versions: dict[str, Version] = {}
        self.gateways: dict[str, str] = {}
        self.pairs: list[str] = []
        """The processes of services that have standbys."""

        members: list[Member] = []
        for number, (group, copy) in enumerate(worked):
            gateway, http = ports[len(worked) + number], ports[number]
            answers = gateway if group == [services.GATEWAY] else http
            name = f"{group[0] if len(group) == 1 else 'chain'}-{copy}"
            if set(group) <= set(services.names()):
                self.pairs.append(name)
            if group == [services.GATEWAY]:
                self.gateways[name] = f"http://127.0.0.1:{gateway}"
            members.append(
                Member(
                    name=name,
                    launch=start_as.launch,
                    arguments=("run", "--with-parent", *group),
                    environment={
                        **self.environment,
                        "MOORAGE_HTTP_PORT": str(http),
                        "MOORAGE_GATEWAY_PORT": str(gateway),
                    },
                    url=f"http://127.0.0.1:{answers}/readyz",
                    log=folder / f"{name}.log",
                )
            )
            self.versions[name] = start_as
        self.members = Members(members)

    async def replace(self, name: str, version: Version) -> None:
        """Stop a process in order, start it as another version, and wait until every process has its standbys."""
        member = self.members[name]
        await member.stop()
        member.launch = version.launch
        self.versions[name] = version
        await member.start()
        await self.until_warm()

    async def kill(self, name: str) -> None:
        """Kill a process, and start it again."""
        member = self.members[name]
        await member.kill()
        await member.start()
        await self.until_warm()

    async def until_warm(self) -> None:
        """Return when every process is ready and every standby is warm, as an operator waits before the next step."""
        deadline = time.monotonic() + _READY_WITHIN
        await self.members.until_ready(_READY_WITHIN)
        async with httpx.AsyncClient(timeout=5.0, trust_env=False) as http:
            urls = [self.members[name].url for name in self.pairs]
            while cold := without_standby([await _shown(http, url) for url in urls]):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no warm standbys within {_READY_WITHIN:.0f} s: {cold}")
                await asyncio.sleep(_POLL)

    async def cross(self, old: Version, new: Version) -> list[str]:
        """Let the programs of each version speak to the gateway of the other; return what went wrong."""
        wrong = []
        status = await new.moorage(
            "status", env={**self.environment, "MOORAGE_SERVER": next(iter(self.gateways.values()))}
        )
        if status.code:
            wrong.append(f"moorage status of {new.name} in a fleet of both: {(status.out + status.err)[-600:]}")
        for gateway, server in self.gateways.items():
            there = self.versions[gateway]
            program = old if there is new else new
            env = {"MOORAGE_SERVER": server, "MOORAGE_BOOTSTRAP_SERVERS": "", "MOORAGE_TOPIC_PREFIX": self.prefix}
            name = f"crossed-{gateway}-{there.name[:3]}"
            node = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
            for words, text in (
                (("apply", "-f", "-"), node),
                (("taint", "node", name, "crossed=1:NoSchedule"), None),
                (("report", f"Node/{name}", "Ready=True", "--source", "crossed"), None),
                (("get", "nodes", "-o", "json"), None),
                (("explain", f"Node/{name}"), None),
            ):
                done = await program.moorage(*words, env=env, text=text)
                if done.code:
                    wrong.append(
                        f"moorage {words[0]} of {program.name} at {gateway} of {there.name}: {done.err[-300:]}"
                    )
            probe = (f"Node/{name}", "Ready=True", "--source", "crossed")
            done = await program.example("probe.py", *probe, env=env)
            if done.code:
                wrong.append(f"SDK of {program.name} at {gateway} of {there.name}: {(done.out + done.err)[-300:]}")
        return wrong


async def upgrade(
    bootstrap: str,
    old: Version,
    new: Version,
    folder: Path,
    *,
    form: str = FORMS[0],
    seed: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> Upgrade:
    """Replace every process by the other version and back under load, and check all that was written.

    Args:
        bootstrap: the addresses of Kafka.
        old: the version that runs first and last.
        new: the other one. If it is the same, every process is restarted once.
        folder: exists; for logs and the history.
        form: one of `FORMS`.
        seed: decides on the load, the order and what is killed.
        tell: called with each step.
    """
    began = time.time()
    result = Upgrade(form, seed)
    chance = random.Random(f"upgrade {form} {seed}")  # noqa: S311 - a seed must draw the same again
    prefix = f"u{time.time_ns() // 1_000_000:x}-{form}"
    settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, partitions=PARTITIONS)
    drill = Drill(form, bootstrap, prefix, folder, old)
    async with drill.members as members:
        await members.until_ready(_READY_WITHIN)
        await ensure_topics(settings)  # those that only the new version has, so that all of them can be read
        # The broker gives the times of records, so that the checker need not trust a writer's clock.
        await change(settings, [SettingDifference(topic.name(prefix), *_APPEND_TIME, chosen=False) for topic in TOPICS])
        inputs = random.Random(seed)  # noqa: S311 - as above
        load = Load(list(drill.gateways.values()), bootstrap, prefix, PARTITIONS, inputs)
        pulse = Pulse(load)
        result.delays["taint"] = pulse.measured

        def heard(topic: str, record: Any) -> None:
            load.heard(topic, record)
            pulse.heard(topic, record)

        async with load, Recorder(bootstrap, prefix, PARTITIONS, heard) as recorder:
            await load.settle_in()
            await load.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": PULSE}})
            await drill.until_warm()
            tell(f"{len(members.all)} processes of {old.name} run, {form}")
            tasks = [asyncio.create_task(load.go_on(float("inf"))), asyncio.create_task(pulse.run())]
            work = asyncio.create_task(_Course(drill, pulse, result, tell).both_ways(old, new, chance))
            try:
                await asyncio.wait([*tasks, work], return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()  # it ends only with an error
                await work
            finally:
                for task in (*tasks, work):
                    task.cancel()
                await asyncio.gather(*tasks, work, return_exceptions=True)
            await load.settle()
            await members.until_ready(_READY_WITHIN)
            quiet = await recorder.until_still(STILL, _QUIET_WITHIN)
            await recorder.complete()
            history = recorder.history(
                began=began,
                quiet=quiet,
                skew=0.0,
                settings=differing(RULES),
                places=load.acknowledged,
                told=load.told,
            )
            result.crashes = members.crashes()
    await delete_topics(bootstrap, prefix)
    result.judge(history, load.lost)
    result.seconds = time.time() - began
    result.save(folder)
    return result


@dataclass(frozen=True)
class _Course:
    """The steps of a drill, each measured."""

    drill: Drill
    pulse: Pulse
    result: Upgrade
    tell: Callable[[str], None]

    async def both_ways(self, old: Version, new: Version, chance: random.Random) -> None:
        """Forwards, then back, in other orders. When half are replaced, kill two processes and cross the programs.

        If both versions are the same, restart every process once.
        """
        drill = self.drill
        await self.pulse.until_decided(time.time() + _UNDISTURBED)
        ways = {"restart": new} if old is new else {"forwards": new, "back": old}
        for way, version in ways.items():
            workers = [name for name in drill.members.all if name not in drill.gateways]
            chance.shuffle(workers)
            first, second = drill.gateways
            half = len(workers) // 2
            for name in (*workers[:half], first):
                await self._step(f"{way}: {name}", drill.replace(name, version))
            for killed in (chance.choice(workers[:half]), chance.choice(workers[half:])):
                await self._step(f"{way}: {killed} killed", drill.kill(killed))
            if old is not new:
                self.result.violations += await drill.cross(old, new)
            for name in (*workers[half:], second):
                await self._step(f"{way}: {name}", drill.replace(name, version))

    async def _step(self, name: str, act: Awaitable[None]) -> None:
        since = time.time()
        await act
        until = time.time()
        await self.pulse.until_decided(until)
        self.result.steps.append((name, since, until))
        took = self.result.longest("taint", since, until)
        self.tell(f"{name}: {until - since:.1f} s, longest time from a report to its taint {took:.2f} s")


async def _shown(http: httpx.AsyncClient, url: str) -> Mapping[str, Any]:
    """Return the services of a process by their names; a service `not-ready` if it is not."""
    try:
        answer = await http.get(url)
    except httpx.HTTPError:
        return {"not-ready": {"partitions": {url: {}}}}
    shown: Mapping[str, Any] = answer.json().get("services", {})
    return shown if answer.is_success else {**shown, "not-ready": {"partitions": {url: {}}}}


def without_standby(processes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the partitions that a process owns and no other one has a warm standby of."""
    owned: set[tuple[str, str]] = set()
    warm: set[tuple[str, str]] = set()
    for name, shown in (found for services_of_one in processes for found in services_of_one.items()):
        owned |= {(name, number) for number in shown.get("partitions") or ()}
        warm |= {(name, number) for number, state in (shown.get("standbys") or {}).items() if state == "Warm"}
    return [f"{name} {number}" for name, number in sorted(owned - warm)]


def _evictions(history: History) -> list[Delay]:
    """How long after their deadlines evictions were requested that no guard held."""
    deadlines: dict[str, float] = {}
    found = []
    for entry in history.entries:
        if entry.topic != EVICTIONS.short or entry.value is None:
            continue
        event = EvictionDecided.model_validate_json(entry.value)
        if event.state is EvictionState.SCHEDULED and event.deadline is not None:
            deadlines[entry.key] = event.deadline.timestamp()
        elif event.held_by:
            deadlines.pop(entry.key, None)
        elif event.state is EvictionState.REQUESTED and entry.key in deadlines:
            due = deadlines.pop(entry.key)
            found.append(Delay(due, entry.appended - due))
    return found


def _placements(history: History) -> list[Delay]:
    """How long after pods without a controller were created they were first decided on."""
    created: dict[str, float] = {}
    decided: set[str] = set()
    found = []
    for entry in sorted(history.entries, key=lambda entry: entry.appended):
        if entry.topic == RESOURCES.short and entry.key.startswith("Pod/") and entry.value is not None:
            created.setdefault(entry.key, entry.appended)
        elif entry.topic == PLACEMENTS.short and entry.key in created.keys() - decided:
            decided.add(entry.key)
            found.append(Delay(created[entry.key], entry.appended - created[entry.key]))
    return found
