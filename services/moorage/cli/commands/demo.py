"""`moorage demo`: the main job on an embedded Kafka, to watch; it checks what it shows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from moorage.cli import manifests, targets, where
from moorage.cli.client import Client, JsonObject
from moorage.cli.commands.apply import apply_all
from moorage.cli.demo_claims import SOON, Chain, Claim, spread, whole_story
from moorage.cli.demo_files import examples
from moorage.cli.errors import CliError
from moorage.cli.eventlines import STYLES, clock, words
from moorage.cli.reading import BEGINNING, Seen, TopicReader
from moorage.cli.stack import Stack
from moorage.core.dialects.kubernetes import NOT_READY
from moorage.core.evicting import EvictAt, verdict
from moorage.core.tainting_spec import parse_taints
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta, to_structured
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import Taint
from moorage_schemas.topics import BINDINGS, CONDITIONS, EVICTIONS, PLACEMENTS, TAINTS, TIMER_FIRED

_PARTITIONS = 6  # fewer than a fleet's 24: this one has 20 nodes, and starts on two cores
_SETTLE_SECONDS = 60.0
_CHAIN_SECONDS = 40.0
_QUIET_SECONDS = 1.0  # to see that nobody is evicted who should stay
_SICK, _TAINTED = "a2", "b3"  # nodes of the example with bare pods that were made for this
_TAINTS = ("maintenance=disk:NoExecute", "maintenance=disk:NoSchedule")  # the second keeps replacements away
_TOPICS = (CONDITIONS, TAINTS, TIMER_FIRED, EVICTIONS, PLACEMENTS, BINDINGS)


def demo(
    ctx: typer.Context,
    *,
    folder: Annotated[Path | None, typer.Option("--examples", help="The folder of the examples.")] = None,
    attach: Annotated[
        bool, typer.Option("--attach", help="Use the Moorage that runs already, whose fleet the demo changes.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data and logs of the run.")] = False,
) -> None:
    """Show the main job on an embedded Kafka; ends by itself.

    A fleet of 20 nodes is declared. A probe reports a node as not ready, and a person taints another; what
    follows is shown from the topics as it happens, and checked: exit code 1 when something is not as it should be.
    """
    found = examples(folder)
    show = _Show()
    if attach:
        asyncio.run(_Demo(found, show, where.gateway(ctx), *where.kafka()).run())
        return
    state = Path(tempfile.mkdtemp(prefix="moorage-demo-"))
    try:
        asyncio.run(_alone(found, show, state))
    finally:
        if keep:
            show.note(f"data and logs: {state}")
        else:
            shutil.rmtree(state, ignore_errors=True)


async def _alone(found: Path, show: _Show, state: Path) -> None:
    settings = where.load_settings(
        bootstrap_servers="", gateway_port=0, partitions=_PARTITIONS, topic_prefix="moorage", replication_factor=0
    )
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    show.title("1. Start: Kafka, five services, the gateway")
    try:
        async with Stack(settings, state, show.note, together=True) as stack:
            await _Demo(found, show, stack.server, stack.bootstrap, settings.topic_prefix).run()
    except asyncio.CancelledError:
        raise CliError("stopped before the end", code=130) from None


class _Show:
    """Writes to the terminal: lines that come as things happen, coloured when it is one."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        """A step."""
        self._console.print()
        self._console.print(Text(text, "bold"))

    def note(self, text: str) -> None:
        """What is being done."""
        self._console.print(Text(f"   {text}", "dim"))

    def command(self, text: str) -> None:
        """What a person or a program does."""
        self._console.print(Text(f"   $ {text}", "bold cyan"))

    def event(self, chain: Chain, seen: Seen) -> None:
        """An event of a chain: the time, how long after the cause, what happened."""
        when = seen.meta.time if seen.meta is not None and seen.meta.time is not None else seen.timestamp
        line = Text(f"   {clock(when)} ", "dim")
        line.append(f"{(when - chain.cause).total_seconds():+8.3f} s  ", "bold")
        line.append(f"{chain.node}  ", "dim")
        line.append(f"{seen.topic.short:<11} ", STYLES.get(seen.topic.short, "white"))
        line.append(words(seen.key, seen.event))
        self._console.print(line)

    def claim(self, claim: Claim) -> None:
        """A claim, and whether it holds."""
        line = Text("   ok    " if claim.holds else "   WRONG ", "green" if claim.holds else "bold red")
        line.append(claim.text if claim.holds else f"{claim.text}: {claim.problem}")
        self._console.print(line)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began


class _Demo:
    """One run against a Moorage that is ready."""

    def __init__(self, folder: Path, show: _Show, server: str, bootstrap: str, prefix: str) -> None:
        self._folder = folder
        self._show = show
        self._server = server
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._bindings: dict[str, WorkloadBound] = {}
        self._placed: dict[str, WorkloadPlaced] = {}
        self._chains: list[Chain] = []
        self._changed = asyncio.Event()
        self._nodes: list[str] = []
        self._namespaces: set[str] = set()

    async def run(self) -> None:
        """Declare, disturb, watch, check.

        Raises:
            CliError: something is not as it should be.
        """
        async with self._reading(), asyncio.timeout(_SETTLE_SECONDS + 2 * _CHAIN_SECONDS):
            with Client(self._server) as client:
                await self._declare(client)
                began = self._show.seconds
                await self._disturb(client)
                whole = await self._until(lambda: all(chain.complete for chain in self._chains), _CHAIN_SECONDS)
                await self._until(lambda: False, _QUIET_SECONDS)
                took = self._show.seconds - began
        self._tell(took, whole=whole)

    async def _declare(self, client: Client) -> None:
        self._show.title("2. Declare the fleet")
        self._show.command("moorage apply -f examples/fleet")
        good, refused = manifests.read([str(self._folder / "fleet")])
        applied = await asyncio.to_thread(lambda: list(apply_all(client, good)))
        problems = [*map(str, refused), *(one.error for one in applied if one.error)]
        if problems:
            raise CliError("the example fleet was not taken:\n" + "\n".join(problems))
        self._nodes = [item.name for item in good if item.kind and item.kind.kind == "Node"]
        await asyncio.to_thread(self._all_ready, client)
        wanted = _pods(good, len(self._nodes))
        self._namespaces = {item.namespace("default") for item in good if item.kind and item.kind.namespaced}
        # More on a fleet that was there before: its other nodes get a DaemonSet's pods too.
        settled = await self._until(lambda: self._running() >= wanted, _SETTLE_SECONDS)
        if not settled:
            waiting = [f"{one.workload.name}: {one.message}" for one in self._placed.values() if not _on(one)]
            raise CliError(f"{self._running()} of {wanted} pods were placed.\n" + "\n".join(waiting[:10]))
        on = {bound.target.name for bound in self._bindings.values()}
        zones = {labels.get("topology.kubernetes.io/zone") for labels in _labels(good)}
        self._show.note(
            f"{len(self._nodes)} nodes in {len(zones)} zones, {wanted} pods placed on {len(on)} of them, "
            f"after {self._show.seconds:.1f} s in all"
        )

    def _all_ready(self, client: Client) -> None:
        """The first heartbeat of every node."""
        now = datetime.now(UTC)
        events = []
        for name in self._nodes:
            report = ConditionReported(
                target=TargetRef(kind=TargetKind.NODE, name=name),
                type="Ready",
                status="True",
                reason="KubeletReady",
                observed_time=now,
                source="demo/heartbeat",
            )
            meta = Meta(id=f"demo-{name}-{now.timestamp()}", source=report.source, type=report.event_type, time=now)
            events.append(to_structured(meta, report))
        client.report(events)

    async def _disturb(self, client: Client) -> None:
        self._show.title("3. A probe reports a node as not ready; a person taints another")
        sick, tainted = self._pick()
        self._show.command(f"python examples/probe.py Node/{sick} Ready=False --reason KubeletStopped")
        first = Chain(
            sick, "node.kubernetes.io/not-ready", f"{sick} is not ready", datetime.now(UTC), needs_condition=True
        )
        self._chains.append(first)
        for seen in first.begin(*await self._probe(sick), self._bindings):
            if _worth_telling(seen):
                self._show.event(first, seen)
        await self._until(lambda: first.taint is not None, _CHAIN_SECONDS / 2)
        self._show.command(f"moorage taint node {tainted} {' '.join(_TAINTS)}")
        self._chains.append(Chain(tainted, "maintenance", f"{tainted} is tainted", datetime.now(UTC)))
        await asyncio.to_thread(targets.change, client, targets.NODE, tainted, _with_taint)

    def _pick(self) -> tuple[str, str]:
        """The node that is not ready, which must carry a replica with a short deadline, and the one that is tainted."""
        now = datetime.now(UTC)
        taint = Taint(key=NOT_READY, effect="NoExecute", time_added=now)
        short = set()
        for bound in self._bindings.values():
            fate = verdict([taint], bound.tolerations)
            if bound.owner.kind == "Deployment" and isinstance(fate, EvictAt) and fate.deadline - now <= SOON:
                short.add(bound.target.name)
        if _TAINTED not in self._nodes or not short - {_TAINTED}:
            raise CliError("the example fleet is not as the demo needs it: no replica with a short deadline was placed")
        return (_SICK if _SICK in short else min(short - {_TAINTED})), _TAINTED

    async def _probe(self, node: str) -> tuple[str, datetime]:
        """Run the example probe; the id of its report, and when it made it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(self._folder / "probe.py"),
            *(f"Node/{node}", "Ready=False", "--reason", "KubeletStopped", "--source", "examples/probe"),
            env={**os.environ, "MOORAGE_BOOTSTRAP_SERVERS": self._bootstrap, "MOORAGE_TOPIC_PREFIX": self._prefix},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode != 0:
            raise CliError(f"the example probe failed with code {process.returncode}: {err.decode().strip()}")
        identity, when = out.decode().split()[:2]
        return identity, datetime.fromisoformat(when)

    def _tell(self, took: float, *, whole: bool) -> None:
        self._show.title("4. Summary")
        claims = []
        for chain in self._chains:
            self._show.note(f"{chain.title}: {len(chain.fates)} pods were there; chain {chain.correlation}")
            for claim in chain.claims():
                self._show.claim(claim)
                claims.append(claim)
        claims.append(whole_story(self._chains))
        self._show.claim(claims[-1])
        self._latencies()
        wrong = [claim for claim in claims if not claim.holds]
        self._show.note(f"the chains took {took:.1f} s, everything {self._show.seconds:.1f} s")
        if wrong or not whole:
            missing = "; ".join(f"{claim.text}: {claim.problem}" for claim in wrong) or "a chain did not end in time"
            raise CliError(f"not everything happened that should: {missing}")

    def _latencies(self) -> None:
        fates = [fate for chain in self._chains for fate in chain.fates.values() if fate.requested]
        left = [fate for fate in fates if fate.requested]
        late = [fate.requested - fate.due for fate in left if fate.due and fate.requested]
        again = [
            fate.successor.decided_time - fate.requested
            for fate in left
            if fate.successor is not None and fate.requested is not None
        ]
        noticed = [chain.taint - chain.cause for chain in self._chains if chain.taint]
        self._show.note(
            f"{len(left)} evicted, {len(again)} placed again; cause to taint: {spread(noticed)}; "
            f"deadline to eviction: {spread(late)}; eviction to new placement: {spread(again)}"
        )

    @contextlib.asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Fold in what the topics say, in the background."""
        # From the beginning, for the bindings that stand; chains begin with their causes.
        async with TopicReader(self._bootstrap, self._prefix, _TOPICS, BEGINNING) as reader:
            task = asyncio.create_task(self._read(reader))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _read(self, reader: TopicReader) -> None:
        async for batch in reader.batches():
            for seen in batch:
                self._take(seen)
            if batch:
                self._changed.set()

    def _take(self, seen: Seen) -> None:
        for chain in self._chains:
            if chain.take(seen, self._bindings) and _worth_telling(seen):
                self._show.event(chain, seen)
                break
        if isinstance(seen.event, WorkloadBound):
            self._bindings[seen.key] = seen.event
        elif seen.topic is BINDINGS:
            self._bindings.pop(seen.key, None)
        elif isinstance(seen.event, WorkloadPlaced):
            self._placed[seen.key] = seen.event
        elif seen.topic is PLACEMENTS:
            self._placed.pop(seen.key, None)

    def _running(self) -> int:
        """Pods that are placed and bound."""
        bound = {key.partition("|")[0] for key in self._bindings}
        mine = {key: one for key, one in self._placed.items() if one.workload.namespace in self._namespaces}
        return sum(_on(one) and key in bound for key, one in mine.items())

    async def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, looking again whenever events came; whether it does in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        return holds()


def _worth_telling(seen: Seen) -> bool:
    state = getattr(seen.event, "state", "")
    return seen.event is not None and state != "Completed"


def _on(placed: WorkloadPlaced) -> bool:
    return placed.state is PlacementState.PLACED


def _with_taint(found: JsonObject) -> tuple[JsonObject, str]:
    before = (found.get("spec") or {}).get("taints") or []
    added = [taint.model_dump(exclude={"time_added"}) for taint in parse_taints(_TAINTS).add]
    return {"spec": {"taints": [*before, *added]}}, "tainted"


def _labels(good: list[manifests.Manifest]) -> list[dict[str, str]]:
    return [
        (item.document.get("metadata") or {}).get("labels") or {}
        for item in good
        if item.kind and item.kind.kind == "Node"
    ]


def _pods(good: list[manifests.Manifest], nodes: int) -> int:
    """How many pods the fleet's manifests ask for."""
    total = 0
    for item in good:
        kind = item.kind.kind if item.kind else ""
        if kind == "Pod":
            total += 1
        elif kind == "DaemonSet":
            total += nodes
        elif kind in {"Deployment", "StatefulSet", "ReplicaSet"}:
            total += int((item.document.get("spec") or {}).get("replicas", 1))
    return total
