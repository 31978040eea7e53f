"""The sides that `bench/peers.py` compares, as processes: upstream's controllers, and Moorage with its bridges."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
from bench import harness
from bench import peers_table as table
from bench.peers_table import MOORAGE, Document, Sample
from tests.planes import plane as planes
from tests.planes.plane import Plane

from moorage.cli.local.stack import EMBEDDED_PARTITIONS, Stack
from moorage.cli.local.supervisor import Process, end, launch
from moorage.runtime.settings.process_settings import Settings

Found = TypeVar("Found")

KUBEPLANE: Final = "kubeplane"

_READY: Final = 180.0  # seconds until a process serves
_KNOWN: Final = 300.0  # seconds until Moorage knows what the cluster has
_END: Final = 20.0  # seconds for a process to end in order
_LOOK: Final = 0.1  # seconds between two questions


class PeersError(Exception):
    """A side, or the load generator, did not do what the measure needs."""


@dataclass
class Machine:
    """What runs, so that its processor time can be read."""

    pids: Callable[[], Mapping[str, int]]
    cpu: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Note the processor seconds that each process uses meanwhile."""
        before = {name: (pid, harness.cpu_seconds(pid)) for name, pid in self.pids().items()}
        yield
        used = {name: round(harness.cpu_seconds(pid) - busy, 2) for name, (pid, busy) in before.items()}
        self.cpu = {name: seconds for name, seconds in used.items() if seconds > 0.01}


def pids_of(plane: Plane) -> dict[str, int]:
    """The processes of a control plane, by name."""
    return {one.name: int(one.read_text("ascii")) for one in sorted((plane.folder / "pid").iterdir())}


async def generate(plane: Plane, *words: str, seconds: float) -> list[dict[str, Any]]:
    """Run the load generator, which measures from outside with watches of its own.

    Args:
        plane: the control plane.
        words: what it is to do, such as `pods --pods 200`.
        seconds: how long it may take.

    Raises:
        PeersError: it failed.
    """
    process = await asyncio.create_subprocess_exec(
        *(str(planes.path_of(KUBEPLANE)), "peer", *words),
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            out, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise PeersError(f"peer {' '.join(words)} did not end within {seconds:.0f} s") from None
    if process.returncode:
        raise PeersError(f"peer {' '.join(words)} ended with {process.returncode}: {errors.decode()[-2000:]}")
    return parsed(out.decode())


def parsed(output: str) -> list[dict[str, Any]]:
    """Return the lines of the generator."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@asynccontextmanager
async def controllers(
    plane: Plane, *parts: str, flags: Mapping[str, str], ends: Sequence[str], without: Sequence[str] = ()
) -> AsyncIterator[None]:
    """Controllers of a plane with these flags.

    Args:
        plane: the control plane.
        parts: of it, such as `ocm`.
        flags: by variables such as `KCM_FLAGS`.
        ends: the processes that are ended before and afterwards.
        without: the processes that do not run meanwhile.
    """
    await plane.down(*ends)
    await plane.up(*parts, flags=flags)
    if without:
        await plane.down(*without)
    try:
        yield
    finally:
        await plane.down(*ends)


def listening_port(log: Path) -> int:
    """Return the port that a process listens on which has chosen a free one, by its log. 0 if it listens not yet."""
    for line in log.read_text("utf-8", "replace").splitlines():
        if '"http.listening"' in line:
            return int(json.loads(line)["port"])
    return 0


class Bridge:
    """`moorage bridge` in a process.

    Args:
        plane: the control plane that it bridges.
        environment: says where Moorage is.
        log: a file for its log.
        words: the kind of the control plane, and options.
    """

    def __init__(self, plane: Plane, environment: Mapping[str, str], log: Path, words: Sequence[str]) -> None:
        self._plane, self._environment, self._log, self._words = plane, environment, log, words
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """Its process id. 0 if it does not run."""
        return self._process.pid if self._process is not None and self._process.returncode is None else 0

    async def start(self) -> None:
        """Start it. It may not be ready yet."""
        access = ("--kubeconfig", str(self._plane.kubeconfig))
        with self._log.open("ab") as output:
            self._process = await launch(("bridge", *self._words, *access), self._environment, output)

    async def state(self) -> dict[str, Any]:
        """What it says of itself. Empty while it says nothing.

        Raises:
            PeersError: it has ended.
        """
        if not self.pid:
            raise PeersError(f"the bridge has ended; its log ends with:\n{self._log.read_text('utf-8')[-3000:]}")
        with suppress(httpx.HTTPError, ValueError, KeyError):
            async with httpx.AsyncClient(timeout=5, trust_env=False) as http:
                told = (await http.get(f"http://127.0.0.1:{listening_port(self._log)}/readyz")).json()
                found: dict[str, Any] = told["services"]["bridge"]
                return found
        return {}

    async def leads(self) -> None:
        """Return when it acts, and Moorage knows the cluster."""
        await until(self._leads, _KNOWN, "the bridge does not know the cluster")

    async def ready(self) -> None:
        """Return when it could act, whether it does or another one."""
        await until(self._is_ready, _READY, "the bridge is not ready")

    async def _leads(self) -> bool:
        state = await self.state()
        return bool(state.get("leading") and state.get("fleet_known", True))

    async def _is_ready(self) -> bool:
        return bool((await self.state()).get("ready"))

    async def kill(self) -> None:
        """Kill it at once."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        """End it in order, or kill it if it does not."""
        if self._process is not None:
            await end(self._process, _END)


class Moorage:
    """Services and gateway on a Kafka, as `moorage up` runs them, and bridges to a plane."""

    def __init__(self, stack: Stack, prefix: str, plane: Plane, folder: Path) -> None:
        self.stack, self.prefix = stack, prefix
        self._plane, self._folder = plane, folder
        self.environment = {
            "MOORAGE_SERVER": stack.server,
            "MOORAGE_BOOTSTRAP_SERVERS": stack.bootstrap,
            "MOORAGE_TOPIC_PREFIX": prefix,
            "MOORAGE_LOG_FORMAT": "json",
        }
        self.bridges: list[Bridge] = []

    @property
    def pids(self) -> dict[str, int]:
        """Its processes, by name."""
        found = {child.spec.name: child.pid for child in self.stack.supervisor.children}
        return found | {f"bridge {number}": one.pid for number, one in enumerate(self.bridges)}

    @property
    def machine(self) -> Machine:
        """What runs on the machine with it."""
        return Machine(lambda: {**pids_of(self._plane), **self.pids})

    async def bridge(self, *words: str) -> Bridge:
        """Start a bridge. It may not be ready yet."""
        log = self._folder / f"bridge-{len(self.bridges)}.log"
        bridge = Bridge(self._plane, self.environment, log, words)
        await bridge.start()
        self.bridges.append(bridge)
        return bridge

    async def knows(self, path: str, count: int) -> None:
        """Return when the gateway has so many objects under a path, such as bindings."""

        async def there() -> bool:
            with suppress(httpx.HTTPError, ValueError, KeyError):
                async with httpx.AsyncClient(base_url=self.stack.server, timeout=30, trust_env=False) as http:
                    return len((await http.get(path)).json()["items"]) == count
            return False

        await until(there, _KNOWN, f"Moorage does not know {count} objects of {path}")


@asynccontextmanager
async def moorage(
    bootstrap: str, plane: Plane, folder: Path, *, together: bool = True, **given: Any
) -> AsyncIterator[Moorage]:
    """A new fleet of Moorage, which ends with its bridges.

    Unless partitions are given, it has as many as `moorage up` gives a new one.

    Args:
        bootstrap: the address of a Kafka.
        plane: the control plane to bridge.
        folder: for logs and state.
        together: whether all services share a process, as `moorage up` has it.
        given: settings that are not the defaults.
    """
    prefix = f"peers-{uuid.uuid4().hex[:8]}"
    folder = folder / prefix
    folder.mkdir(parents=True)
    given = {"partitions": EMBEDDED_PARTITIONS, **given}
    settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, gateway_port=0, **given)
    async with AsyncExitStack() as life:
        stack = await life.enter_async_context(Stack(settings, folder, lambda _: None, together=together))
        found = Moorage(stack, prefix, plane, folder)

        async def stop() -> None:
            for bridge in found.bridges:
                await bridge.stop()

        life.push_async_callback(stop)
        yield found


async def until(true: Callable[[], Any], seconds: float, what: str) -> None:
    """Return when something is true.

    Raises:
        PeersError: it was not in time.
    """
    ends = time.monotonic() + seconds
    while not await true():
        if time.monotonic() > ends:
            raise PeersError(f"{what} within {seconds:.0f} s")
        await asyncio.sleep(_LOOK)


def note(what: str) -> None:
    """Write a message about progress, with the time, to standard error."""
    harness.note(f"{time.strftime('%H:%M:%S')} {what}")


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
        note(what)
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
    machine: Machine
    knows: Knows

    async def measure(
        self, measure: str, case: str, read: Callable[[Document], Mapping[str, float]], *words: str, seconds: float
    ) -> None:
        """Let the generator measure, and note what it has found if that is wanted."""
        with self.machine.measured():
            found = await generate(self.plane, *words, seconds=seconds)
        if measure in self.options.wanted:
            self.note(measure, case, read(found[0]), found[0])

    def note(self, measure: str, case: str, figures: Mapping[str, float], told: Document | None = None) -> None:
        """Note figures, and what they were read from."""
        load, cpu = round(os.getloadavg()[0], 2), dict(self.machine.cpu)
        sample = Sample(measure, case, self.name, figures, load, cpu, told or {})
        said = ", ".join(f"{name} {table.number(value)}" for name, value in figures.items())
        most = sorted(cpu.items(), key=lambda one: -one[1])[:6]
        used = ", ".join(f"{name} {seconds:g}" for name, seconds in most)
        note(f"{measure} {case}: {self.name}: {said} (load {load:g}; processor seconds: {used})")
        self.options.found(sample)


async def informed(_path: str, _count: int) -> None:
    """Upstream's controllers follow the API server, and are not asked."""


Deciding = Callable[[Plane, Options], AbstractAsyncContextManager[Side]]
"""Lets a side decide on a plane."""


def upstream(name: str, *parts: str, flags: Mapping[str, str], ends: Sequence[str]) -> Deciding:
    """Return upstream's controllers with these flags. See `controllers`."""

    @asynccontextmanager
    async def deciding(plane: Plane, options: Options) -> AsyncIterator[Side]:
        async with controllers(plane, *parts, flags=flags, ends=ends):
            yield Side(name, plane, options, Machine(lambda: pids_of(plane)), informed)

    return deciding


def bridged(
    *words: str,
    parts: Sequence[str] = (),
    flags: Mapping[str, str],
    ends: Sequence[str],
    without: Sequence[str],
    **given: Any,
) -> Deciding:
    """Return Moorage with a bridge, beside controllers with these flags. `given` are settings of Moorage."""

    @asynccontextmanager
    async def deciding(plane: Plane, options: Options) -> AsyncIterator[Side]:
        async with (
            controllers(plane, *parts, flags=flags, ends=ends, without=without),
            moorage(options.bootstrap, plane, options.folder, **given) as fleet,
        ):
            await (await fleet.bridge(*words)).leads()
            yield Side(MOORAGE, plane, options, fleet.machine, fleet.knows)

    return deciding
