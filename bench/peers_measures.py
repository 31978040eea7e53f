"""The measures of `bench/peers.py`: each does the same to the control plane of every side, and counts from outside."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from bench import peers_sides as sides
from bench import peers_table as table
from bench.peers_table import MOORAGE, TUNED, UPSTREAM, Document, Sample
from tests.planes.cluster import connected
from tests.planes.plane import Plane

Found = TypeVar("Found")

PODS_PER_NODE: Final = 4
SINGLE: Final = 3
"""How often a single node is disturbed in a round, each time another one."""

BINDINGS: Final = "/apis/moorage.io/v1alpha1/bindings"

MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
LIFTED: Final = "--kube-api-qps=1000 --kube-api-burst=2000"
WITHOUT_TAINTS: Final = "--controllers=*,-taint-eviction-controller,-node-lifecycle-controller"
_ZONES: Final = 3
_SKIPPED: Final = 10  # the nodes before those that are disturbed together
_NOT_READY: Final = "node.kubernetes.io/not-ready=0,node.kubernetes.io/unreachable=0"
_FEW: Final = 60.0  # seconds for a disturbance
_MANY: Final = 420.0  # seconds for pods, nodes and the like
_TOGETHER: Final = 20.0  # seconds in which nodes are watched that zones let go one by one


@dataclass(frozen=True)
class Options:
    """What is measured.

    Attributes:
        bootstrap: the address of a Kafka.
        folder: for logs and state.
        wanted: the letters of the measures.
        sides: the names of the sides.
        rounds: how often.
        found: called with each sample.
        failed: called with what could not be measured, and why. The others go on.
        clusters: the managed clusters of (d).
        placements: the sizes of (d).
    """

    bootstrap: str
    folder: Path
    wanted: frozenset[str]
    sides: frozenset[str]
    rounds: int
    found: Callable[[Sample], None]
    failed: Callable[[str], None]
    clusters: int
    placements: tuple[int, ...]

    def chosen(self, deciding: Mapping[str, Found]) -> dict[str, Found]:
        """Return the sides that are wanted, by name."""
        return {name: one for name, one in deciding.items() if name in self.sides}

    @asynccontextmanager
    async def attempt(self, what: str) -> AsyncIterator[None]:
        """Note what fails, so that the rest of a long run is measured."""
        sides.note(what)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and the run ends with an error
            self.failed(f"{what}: {type(error).__name__}: {error}")


Knows = Callable[[str, int], Awaitable[None]]
"""Returns when a side knows so many objects of a path, such as those of the control plane that it has to mirror."""


@dataclass
class Side:
    """A side that decides."""

    name: str
    plane: Plane
    options: Options
    machine: sides.Machine
    knows: Knows

    async def measure(
        self, measure: str, case: str, read: Callable[[Document], Mapping[str, float]], *words: str, seconds: float
    ) -> None:
        """Let the generator measure, and note what it has found if that is wanted."""
        with self.machine.measured():
            found = await sides.generate(self.plane, *words, seconds=seconds)
        if measure in self.options.wanted:
            self.note(measure, case, read(found[0]), found[0])

    def note(self, measure: str, case: str, figures: Mapping[str, float], told: Document | None = None) -> None:
        """Note figures, and what they were read from."""
        load, cpu = round(os.getloadavg()[0], 2), dict(self.machine.cpu)
        sample = Sample(measure, case, self.name, figures, load, cpu, told or {})
        said = ", ".join(f"{name} {table.number(value)}" for name, value in figures.items())
        most = sorted(cpu.items(), key=lambda one: -one[1])[:6]
        used = ", ".join(f"{name} {seconds:g}" for name, seconds in most)
        sides.note(f"{measure} {case}: {self.name}: {said} (load {load:g}; processor seconds: {used})")
        self.options.found(sample)


async def informed(_path: str, _count: int) -> None:
    """Upstream's controllers follow the API server, and are not asked."""


# Kubernetes: (a), (b) and (c).


async def kubernetes(plane: Plane, options: Options, nodes: int) -> None:
    """Measure taints, nodes that are not ready, and the placement of pods with so many nodes."""
    lifted = {"KCM_FLAGS": LIFTED}
    async with sides.controllers(plane, flags=lifted, ends=(MANAGER,)):
        await sides.generate(plane, "fleet", "--nodes", str(nodes), "--zones", str(_ZONES), seconds=_MANY)
    for number in range(options.rounds):
        for name, deciding in options.chosen(KUBERNETES).items():
            async with options.attempt(f"{nodes} nodes, round {number + 1}: {name}"), deciding(plane, options) as side:
                await _pods(side, nodes)


@asynccontextmanager
async def _kubernetes(plane: Plane, options: Options) -> AsyncIterator[Side]:
    async with sides.controllers(plane, flags={}, ends=(MANAGER, SCHEDULER)):
        yield Side(UPSTREAM, plane, options, sides.Machine(lambda: sides.pids_of(plane)), informed)


@asynccontextmanager
async def _kubernetes_tuned(plane: Plane, options: Options) -> AsyncIterator[Side]:
    flags = {"KCM_FLAGS": LIFTED, "SCHEDULER_FLAGS": LIFTED}
    async with sides.controllers(plane, flags=flags, ends=(MANAGER, SCHEDULER)):
        yield Side(TUNED, plane, options, sides.Machine(lambda: sides.pids_of(plane)), informed)


@asynccontextmanager
async def _kubernetes_bridged(plane: Plane, options: Options) -> AsyncIterator[Side]:
    flags, ends = {"KCM_FLAGS": WITHOUT_TAINTS}, (MANAGER, SCHEDULER)
    async with (
        sides.controllers(plane, flags=flags, ends=ends, without=(SCHEDULER,)),
        sides.moorage(options.bootstrap, plane, options.folder) as fleet,
    ):
        bridge = await fleet.bridge("kubernetes", "--act", "all", "--scheduler-name", "default-scheduler")
        await bridge.leads()
        yield Side(MOORAGE, plane, options, fleet.machine, fleet.knows)


KUBERNETES: Final = {UPSTREAM: _kubernetes, TUNED: _kubernetes_tuned, MOORAGE: _kubernetes_bridged}


async def _pods(side: Side, nodes: int) -> None:
    """Place pods, taint nodes; place pods again, and let nodes be not ready."""
    wanted, pods = side.options.wanted, PODS_PER_NODE * nodes
    if wanted & {"a", "c"}:
        await _place(side, pods)
        if "a" in wanted:
            await _disturb(side, _TAINTED, nodes)
        await _clear(side)
    if "b" in wanted:
        await _place(side, pods, "--tolerate", _NOT_READY)
        await _disturb(side, _UNREADY, nodes)
        await _clear(side)


async def _place(side: Side, pods: int, *words: str) -> None:
    case = f"{pods:,} pods on {pods // PODS_PER_NODE} nodes"
    await side.measure("c", case, table.pods, "pods", "--pods", str(pods), *words, seconds=_MANY)
    await side.knows(BINDINGS, pods)


class Disturbance(NamedTuple):
    """What is done to nodes."""

    measure: str
    what: str
    """As the generator calls it."""

    patience: float
    """Seconds after which it is not waited for what follows."""

    read: Callable[[Document], Mapping[str, float]]


_TAINTED: Final = Disturbance("a", "taint", _FEW, table.scenario)
_UNREADY: Final = Disturbance("b", "notready", _TOGETHER, table.not_ready)


async def _disturb(side: Side, done: Disturbance, nodes: int) -> None:
    """Do something to single nodes, and then to a tenth of them at once."""
    words = ("scenario", "--do", done.what, f"--timeout={done.patience:.0f}s")
    counts = [(number, 1) for number in range(SINGLE)] + [(_SKIPPED, max(1, nodes // 10))]
    for skip, count in counts:
        case, which = f"{count} of {nodes} nodes", ("--skip", str(skip), "--count", str(count))
        await side.measure(done.measure, case, done.read, *words, *which, seconds=done.patience + _FEW)


async def _clear(side: Side) -> None:
    """Remove the pods, and wait until the side has taken its taints back. Otherwise the next one would find them."""
    await sides.generate(side.plane, "clear", seconds=_MANY)
    await side.knows(BINDINGS, 0)
    async with connected(side.plane.folder) as cluster:

        async def untainted() -> bool:
            nodes = (await cluster.get("/api/v1/nodes"))["items"]
            return not any(one["spec"].get("taints") for one in nodes)

        await sides.until(untainted, _MANY, "some nodes are still tainted")
