"""`moorage demo`: demonstrate Moorage on an embedded Kafka, and check the results."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli import completion
from moorage.cli.api import endpoints, kinds, manifests, runfile, targets
from moorage.cli.api.applying import apply_all
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.manifests import Manifest
from moorage.cli.api.topics import BEGINNING, Seen, TopicReader
from moorage.cli.commands.pause import create, parse_scope
from moorage.cli.commands.up import secured
from moorage.cli.contract import kafka_roles
from moorage.cli.demo.acts import Hold, Outage
from moorage.cli.demo.claims import SOON, Consequences, Show, spread, whole_story
from moorage.cli.errors import CliError, UsageError
from moorage.cli.local import services
from moorage.cli.local.services import examples
from moorage.cli.local.stack import SecureKafka, Stack
from moorage.decide.conditions.heartbeats import BY_HAND
from moorage.decide.disruption.object_names import pause_name
from moorage.decide.kubernetes.object_texts import zone_name
from moorage.decide.kubernetes.taint_keys import NOT_READY
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.taints.eviction_verdict import EvictAt, verdict
from moorage.decide.taints.kubectl_syntax import parse_taints
from moorage.runtime.identities import kafka_identities
from moorage.runtime.settings.environment import variable
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta, to_structured
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import Taint
from moorage_schemas.topics import BINDINGS, CONDITIONS, EVICTIONS, PLACEMENTS, TAINTS, TIMER_FIRED, ZONE_GRANTS, ZONES

_SETTLE_SECONDS = 300.0  # these two end the demo where something never happens; a busy machine may take a while
_CHAIN_SECONDS = 180.0
_QUIET_SECONDS = 0.7  # to see that nothing is evicted that should stay
_SICK, _TAINTED = "a2", "b3"  # nodes of the example fleet with bare pods
_TAINTS = ("maintenance=disk:NoExecute", "maintenance=disk:NoSchedule")  # the second keeps replacements away
_TOPICS = (CONDITIONS, TAINTS, ZONES, ZONE_GRANTS, TIMER_FIRED, EVICTIONS, PLACEMENTS, BINDINGS)
_MONITOR_PERIOD = 2.0
"""Seconds that a node waits for its NoExecute taint. The default is 5, which would make the demo longer."""

_LOST = 4
"""The number of nodes of one zone that fail. It is enough to put a zone of seven nodes into partial disruption."""

_PAUSED_TAINT = "rack=move:NoExecute"


def demo(
    ctx: typer.Context,
    *,
    folder: Annotated[
        Path | None, typer.Option("--examples", help="Folder of the examples.", autocompletion=completion.files)
    ] = None,
    attach: Annotated[
        bool, typer.Option("--attach", help="Use the Moorage that is already running. The demo changes its fleet.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data and logs.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show events with their whole text.")] = False,
    secure_kafka: Annotated[
        bool,
        typer.Option("--secure-kafka", help="Require authentication and permissions in the embedded Kafka."),
    ] = False,
) -> None:
    """Demonstrate Moorage on an embedded Kafka, in about half a minute.

    The demo declares a fleet of 20 nodes. A probe reports a node as not ready, and a person taints another node. Then
    half a zone fails, and evictions are paused. The demo shows the events from the topics as they happen, and checks
    them. The exit code is 1 if something is not as it should be.
    """
    if attach and secure_kafka:
        raise UsageError("--secure-kafka: only without --attach, because the Moorage that runs has its Kafka already")
    found = examples(folder)
    show = Show(verbose=verbose)
    if attach:
        running = runfile.read()
        identities = Path(running.kafka_identities) if running and running.kafka_identities else None
        asyncio.run(_Demo(found, show, endpoints.gateway(ctx), *endpoints.kafka(), identities).run())
        return
    state = Path(tempfile.mkdtemp(prefix="moorage-demo-"))
    try:
        asyncio.run(_alone(found, show, state, secured(state) if secure_kafka else None))
    finally:
        if keep:
            show.note(f"data and logs: {state}")
        else:
            shutil.rmtree(state, ignore_errors=True)


async def _alone(found: Path, show: Show, state: Path, kafka: SecureKafka | None) -> None:
    settings = endpoints.load_settings(
        bootstrap_servers="",
        gateway_port=0,
        topic_prefix="moorage",
        replication_factor=0,
        node_monitor_period=_MONITOR_PERIOD,
        node_monitor_grace_period=0,  # the probe reports once
    )
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    show.title(f"1. Start: Kafka, {len(services.names())} services, the gateway")
    show.note(f"--node-monitor-period {_MONITOR_PERIOD:g}s instead of 5s; all rates are the defaults")
    try:
        async with Stack(settings, state, show.note, together=True, secure_kafka=kafka) as stack:
            identities = kafka.folder if kafka else None
            await _Demo(found, show, stack.server, stack.bootstrap, settings.topic_prefix, identities).run()
    except asyncio.CancelledError:
        raise CliError("stopped before the end", code=130) from None


class _Demo:
    """One run against a Moorage that is ready."""

    def __init__(  # noqa: PLR0917 - what `endpoints.kafka` returns is unpacked
        self, folder: Path, show: Show, server: str, bootstrap: str, prefix: str, identities: Path | None = None
    ) -> None:
        self._identities = identities
        self._folder = folder
        self._show = show
        self._server = server
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._bindings: dict[str, WorkloadBound] = {}
        self._placed: dict[str, WorkloadPlaced] = {}
        self._chains: list[Consequences] = []
        self._outage: Outage | None = None
        self._hold: Hold | None = None
        self._changed = asyncio.Event()
        self._nodes: dict[str, str] = {}  # by name, the zone
        self._namespaces: set[str] = set()

    async def run(self) -> None:
        """Declare the fleet, disturb it, watch and check. Raises CliError if a claim does not hold."""
        async with self._reading(), asyncio.timeout(_SETTLE_SECONDS + 3 * _CHAIN_SECONDS):
            with Client(self._server) as client:
                await self._declare(client)
                began = self._show.seconds
                await self._disturb(client)
                whole = await self._until(lambda: all(chain.complete for chain in self._chains), _CHAIN_SECONDS)
                await self._until(lambda: False, _QUIET_SECONDS)
                took = self._show.seconds - began
                await self._lose_a_zone(client)
                await self._pause(client)
        self._tell(took, whole=whole)

    async def _declare(self, client: Client) -> None:
        self._show.title("2. Declare the fleet")
        self._show.command("moorage apply -f examples/fleet")
        good, refused = manifests.read([str(self._folder / "fleet")])
        applied = await asyncio.to_thread(lambda: list(apply_all(client, good)))
        problems = [*map(str, refused), *(one.error for one in applied if one.error)]
        if problems:
            raise CliError("the example fleet was refused:\n" + "\n".join(problems))
        self._nodes = {item.name: zone_name(item.document) for item in good if item.kind and item.kind.kind == "Node"}
        await asyncio.to_thread(self._report_ready, client, self._nodes, "True")
        wanted = _expected_pods(good, len(self._nodes))
        self._namespaces = {item.namespace("default") for item in good if item.kind and item.kind.namespaced}
        # There are more on a fleet that existed before, because its other nodes also get pods of the DaemonSet.
        settled = await self._until(lambda: self._running() >= wanted, _SETTLE_SECONDS)
        if not settled:
            waiting = [f"{one.workload.name}: {one.message}" for one in self._placed.values() if not _on(one)]
            raise CliError(f"{self._running()} of {wanted} pods were placed.\n" + "\n".join(waiting[:10]))
        on = {bound.target.name for bound in self._bindings.values()}
        zones = len(set(self._nodes.values()))
        self._show.note(
            f"{len(self._nodes)} nodes in {zones} zones, {wanted} pods placed on {len(on)} of them, "
            f"after {self._show.seconds:.1f} s in all"
        )

    def _report_ready(self, client: Client, nodes: Iterable[str], status: str) -> datetime:
        """Report `Ready` of nodes in one request, and return the time."""
        now = datetime.now(UTC)
        events = []
        for name in nodes:
            report = ConditionReported(
                target=TargetRef(kind=TargetKind.NODE, name=name),
                type="Ready",
                status=status,
                reason="KubeletReady" if status == "True" else "KubeletStopped",
                observed_time=now,
                source=f"{BY_HAND}demo",
            )
            meta = Meta(id=f"demo-{name}-{now.timestamp()}", source=report.source, type=report.event_type, time=now)
            events.append(to_structured(meta, report))
        client.report(events)
        return now

    async def _disturb(self, client: Client) -> None:
        self._show.title("3. A probe reports a node as not ready; a person taints another")
        sick, tainted = self._pick()
        self._show.command(f"python examples/probe.py Node/{sick} Ready=False --reason KubeletStopped")
        first = Consequences(
            sick, "node.kubernetes.io/not-ready", f"{sick} is not ready", datetime.now(UTC), needs_condition=True
        )
        self._chains.append(first)
        for seen in first.begin(*await self._probe(sick), self._bindings):
            if _worth_telling(seen):
                self._show.event(seen, first.cause, first.node)
        await self._until(lambda: first.condition is not None, _CHAIN_SECONDS / 2)
        self._show.command(f"moorage taint node {tainted} {' '.join(_TAINTS)}")
        self._chains.append(Consequences(tainted, "maintenance", f"{tainted} is tainted", datetime.now(UTC)))
        await asyncio.to_thread(targets.change, client, targets.NODE, tainted, _with_taints(_TAINTS))

    async def _lose_a_zone(self, client: Client) -> None:
        """Report half a zone as not ready, and then as ready again."""
        spared = {self._nodes[chain.node] for chain in self._chains}
        zone = next(zone for zone in sorted(set(self._nodes.values())) if zone not in spared)
        lost = [name for name, there in sorted(self._nodes.items()) if there == zone][:_LOST]
        self._show.title(f"4. {len(lost)} nodes of zone {zone} are not ready, all at once")
        self._show.command(f"moorage report node/… Ready=False   ({', '.join(lost)})")
        keys = frozenset(f"{TargetKind.NODE.value}/{name}" for name in lost)
        self._outage = outage = Outage(zone, keys, datetime.now(UTC))
        await asyncio.to_thread(self._report_ready, client, lost, "False")
        await self._until(lambda: outage.stopped, _CHAIN_SECONDS / 2)
        # Longer than a node has to wait in a zone that is Normal.
        await self._until(lambda: False, _MONITOR_PERIOD + _QUIET_SECONDS)
        self._show.command("moorage report node/… Ready=True    (the same)")
        await asyncio.to_thread(self._report_ready, client, lost, "True")
        await self._until(lambda: outage.over, _CHAIN_SECONDS / 2)

    async def _pause(self, client: Client) -> None:
        """Pause the evictions from a node, taint it, and resume them."""
        node = self._busy()
        scope = f"target=node/{node.name}"
        name = pause_name(parse_scope([scope]))
        self._show.title("5. Evictions are paused, and then resumed")
        self._show.command(f"moorage pause evictions --scope {scope}")
        pauses = kinds.find("evictionpauses")
        await asyncio.to_thread(create, client, parse_scope([scope]), "the demo")
        self._show.command(f"moorage taint node {node.name} {_PAUSED_TAINT}")
        (taint,) = parse_taints([_PAUSED_TAINT]).add
        self._hold = hold = Hold.of(node, f"EvictionPause/{name}", taint, datetime.now(UTC), self._bindings)
        await asyncio.to_thread(targets.change, client, targets.NODE, node.name, _with_taints((_PAUSED_TAINT,)))
        await self._until(lambda: hold.holding, _CHAIN_SECONDS / 2)
        await self._until(lambda: False, _QUIET_SECONDS)
        self._show.command(f"moorage resume evictions --scope {scope}")
        hold.resumed = datetime.now(UTC)
        await asyncio.to_thread(client.delete, pauses, "", name)
        await self._until(lambda: hold.over, _CHAIN_SECONDS / 2)

    def _busy(self) -> TargetRef:
        """Return the node that the most replicas would have to leave at once, among those not touched yet."""
        touched = {chain.node for chain in self._chains}
        if self._outage is not None:
            touched |= {TargetRef.parse(key).name for key in self._outage.nodes}
        (taint,) = parse_taints([_PAUSED_TAINT]).add
        return Hold.busiest(set(self._nodes) - touched, taint, datetime.now(UTC), self._bindings)

    def _pick(self) -> tuple[str, str]:
        """Return the node to report as not ready, which has a replica with a short deadline, and the node to taint."""
        now = datetime.now(UTC)
        taint = Taint(key=NOT_READY, effect="NoExecute", time_added=now)
        short = set()
        for bound in self._bindings.values():
            fate = verdict([taint], bound.tolerations)
            if bound.owner.kind == "Deployment" and isinstance(fate, EvictAt) and fate.deadline - now <= SOON:
                short.add(bound.target.name)
        if _TAINTED not in self._nodes or not short - {_TAINTED}:
            raise CliError("the example fleet does not fit the demo: no replica with a short deadline was placed")
        return (_SICK if _SICK in short else min(short - {_TAINTED})), _TAINTED

    async def _probe(self, node: str) -> tuple[str, datetime]:
        """Run the example probe, and return the id and the time of its report."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(self._folder / "probe.py"),
            *(f"Node/{node}", "Ready=False", "--reason", "KubeletStopped", "--source", "examples/probe"),
            *("--bootstrap", self._bootstrap, "--prefix", self._prefix),
            env={
                **{name: value for name, value in os.environ.items() if name != "MOORAGE_SERVER"},
                **{variable(field): value for field, value in self._identity(kafka_roles.PROBE).items()},
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode != 0:
            raise CliError(f"the example probe failed with code {process.returncode}: {err.decode().strip()}")
        identity, when = out.decode().split()[:2]
        return identity, datetime.fromisoformat(when)

    def _identity(self, role: str) -> dict[str, str]:
        """Return the settings of a user of Kafka, if it has any."""
        return {} if self._identities is None else kafka_identities.settings_of(self._identities, role)

    def _tell(self, took: float, *, whole: bool) -> None:
        self._show.title("6. Summary")
        claims = []
        for chain in self._chains:
            self._show.note(f"{chain.title}: {len(chain.fates)} pods were on it; correlation {chain.correlation}")
            for claim in chain.claims():
                self._show.claim(claim)
                claims.append(claim)
        claims.append(whole_story(self._chains))
        self._show.claim(claims[-1])
        for act in (self._outage, self._hold):
            for claim in act.claims() if act else ():
                self._show.claim(claim)
                claims.append(claim)
        self._latencies()
        wrong = [claim for claim in claims if not claim.holds]
        self._show.note(f"step 3 took {took:.1f} s, everything {self._show.seconds:.1f} s")
        if wrong or not whole:
            missing = (
                "; ".join(f"{claim.text}: {claim.problem}" for claim in wrong) or "something did not happen in time"
            )
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
        self._show.note(f"{len(left)} evicted, {len(again)} placed again")
        self._show.note(f"cause to taint: {spread(noticed)}")
        self._show.note(f"deadline to eviction: {spread(late)}")
        self._show.note(f"eviction to new placement: {spread(again)}")

    @contextlib.asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Apply the events of the topics, in the background."""
        # From the beginning, because present bindings may be old.
        viewer = self._identity(kafka_roles.VIEWER)
        async with TopicReader(self._bootstrap, self._prefix, _TOPICS, BEGINNING, viewer) as reader:
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
        if self._outage is not None and self._outage.take(seen):
            self._show.event(seen, self._outage.cause, self._outage.zone)
        if self._hold is not None and self._hold.take(seen):
            self._show.event(seen, self._hold.cause, self._hold.node.name)
        for chain in self._chains:
            if chain.take(seen, self._bindings) and _worth_telling(seen):
                self._show.event(seen, chain.cause, chain.node)
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
        """Return the number of pods that are placed and bound."""
        bound = {key.partition("|")[0] for key in self._bindings}
        mine = {key: one for key, one in self._placed.items() if one.workload.namespace in self._namespaces}
        return sum(_on(one) and key in bound for key, one in mine.items())

    async def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds, which is checked after each batch of events. Return whether it does in time."""
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


def _with_taints(specs: tuple[str, ...]) -> Callable[[JsonObject], tuple[JsonObject, str]]:
    added = [taint.model_dump(exclude={"time_added"}) for taint in parse_taints(specs).add]

    def decide(found: JsonObject) -> tuple[JsonObject, str]:
        before = at(found, "spec", "taints") or []
        return {"spec": {"taints": [*before, *added]}}, "tainted"

    return decide


def _expected_pods(good: Iterable[Manifest], nodes: int) -> int:
    """Return the number of pods in the fleet's manifests."""
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
