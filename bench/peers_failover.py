"""The measure (f) of `bench/peers.py`: how long nothing is decided after the process that decides was killed.

Two processes run, of which one decides. It is killed with SIGKILL, and at the same moment nodes are tainted. The time
counts from the kill until the first, and the last, of the pods on these nodes is being deleted.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
from bench import peers_sides as sides
from bench.peers_measures import BINDINGS, LIFTED, MANAGER, SCHEDULER, WITHOUT_TAINTS
from bench.peers_sides import Knows, Options, Side, informed
from bench.peers_table import MOORAGE, UPSTREAM
from tests.planes.cluster import Cluster, Document, Follower, connected, following
from tests.planes.plane import Plane

from moorage.cli.local import services
from moorage.cli.local.stack import free_ports
from moorage.cli.local.supervisor import launch
from moorage.runtime.chains import grouped

NODES: Final = 50
TAINTED: Final = 10

BRIDGES: Final = "one of two bridges"
EVICTIONS: Final = "one of two members of eviction"
SERVICES: Final = "one of two processes with all services"
CASES: Final = (BRIDGES, EVICTIONS, SERVICES)
_SHARED_PARTITIONS: Final = 6  # of a fleet in which two members share them

_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/namespaces/bench/pods"
_LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
_KEY: Final = "maintenance"
_SECONDS: Final = 300.0


@dataclass
class Pair:
    """Two processes, of which one decides, or each a part."""

    side: str
    cases: tuple[str, ...]
    """What it is compared in."""

    knows: Knows
    kill: Callable[[], Awaitable[None]]
    """Kills the one that decides."""


async def failover(plane: Plane, options: Options) -> None:
    """Measure each pair in each round."""
    async with sides.controllers(plane, flags={"KCM_FLAGS": LIFTED}, ends=(MANAGER,)):
        await sides.generate(plane, "fleet", "--nodes", str(NODES), seconds=_SECONDS)
    for number in range(options.rounds):
        for name, pairs in options.chosen(PAIRS).items():
            for case, pair_of in pairs.items():
                what = f"kill, round {number + 1}: {name}, {case}"
                async with options.attempt(what), pair_of(plane, options) as pair, connected(plane.folder) as cluster:
                    await _killed(plane, options, pair, cluster)


async def _killed(plane: Plane, options: Options, pair: Pair, cluster: Cluster) -> None:
    """Kill one and taint nodes. Measure until the pods on them go."""
    await sides.generate(plane, "pods", "--pods", str(NODES), seconds=_SECONDS)
    await pair.knows(BINDINGS, NODES)
    async with following(cluster, _PODS) as (pods,):
        nodes = [f"n-{number:04}" for number in range(TAINTED)]
        names = [one["metadata"]["name"] for one in pods.all("bench") if one["spec"]["nodeName"] in nodes]

        def leaving() -> list[dt.datetime] | None:
            times = [at for name in names if (at := _leaving_at(pods, name)) is not None]
            return times if len(times) == len(names) else None

        side = Side(pair.side, plane, options, sides.Machine(dict), pair.knows)
        began = dt.datetime.now(dt.UTC)
        await pair.kill()
        await asyncio.gather(*(cluster.update(f"{_NODES}/{node}", _taint) for node in nodes))
        times = await pods.until(f"{len(names)} pods on tainted nodes are deleted", leaving, _SECONDS)
    took = sorted((at - began).total_seconds() for at in times)
    for case in pair.cases:
        side.note("f", case, {"first s": round(took[0], 2), "all s": round(took[-1], 2)})
    await asyncio.gather(*(cluster.update(f"{_NODES}/{node}", _untaint) for node in nodes))
    await sides.generate(plane, "clear", seconds=_SECONDS)


def _leaving_at(pods: Follower, name: str) -> dt.datetime | None:
    """When a pod was first seen to be deleted."""
    versions = pods.versions(name, "bench")
    return next((one.time for one in versions if one.object["metadata"].get("deletionTimestamp")), None)


def _taint(node: Document) -> None:
    node["spec"].setdefault("taints", []).append({"key": _KEY, "effect": "NoExecute"})


def _untaint(node: Document) -> None:
    node["spec"]["taints"] = [one for one in node["spec"].get("taints") or () if one["key"] != _KEY]


# kube-controller-manager, twice, with the election of a leader and the defaults of its Lease.


@asynccontextmanager
async def _managers(plane: Plane, options: Options) -> AsyncIterator[Pair]:
    async with sides.controllers(plane, flags={}, ends=(MANAGER,)):
        words = _words_of(plane.pid(MANAGER))
        await plane.down(MANAGER)
        managers: list[asyncio.subprocess.Process] = []
        try:
            async with connected(plane.folder) as cluster:
                await cluster.delete(_LEASE)
                managers.append(await _manager(words, options.folder / "kcm-0.log"))
                await sides.until(lambda: _is_held(cluster), _SECONDS, "no kube-controller-manager leads")
                managers.append(await _manager(words, options.folder / "kcm-1.log"))

                async def kill() -> None:
                    managers[0].kill()
                    await managers[0].wait()

                yield Pair(UPSTREAM, CASES, informed, kill)
        finally:
            for one in managers:
                if one.returncode is None:
                    one.send_signal(signal.SIGTERM)
                    await one.wait()


def _words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")[:-1]


async def _manager(words: list[str], log: Path) -> asyncio.subprocess.Process:
    """A manager like the one that ran with these words. Returns when it answers."""
    (port,) = free_ports(1)
    command = [*words, "--leader-elect=true", f"--secure-port={port}"]
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
        )

    async def answers() -> bool:
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient(verify=False, trust_env=False) as http:  # noqa: S501 - only whether it is there
                return (await http.get(f"https://127.0.0.1:{port}/healthz")).status_code == httpx.codes.OK
        return False

    await sides.until(answers, _SECONDS, "a kube-controller-manager does not answer")
    return process


async def _is_held(cluster: Cluster) -> bool:
    found = await cluster.send("GET", _LEASE, missing=True)
    return bool((found.get("spec") or {}).get("holderIdentity"))


# Two bridges.


@asynccontextmanager
async def _bridges(plane: Plane, options: Options) -> AsyncIterator[Pair]:
    async with (
        sides.controllers(plane, flags={"KCM_FLAGS": WITHOUT_TAINTS}, ends=(MANAGER, SCHEDULER)),
        sides.moorage(options.bootstrap, plane, options.folder) as fleet,
    ):
        leader = await fleet.bridge("kubernetes", "--act", "all")
        await leader.leads()
        await (await fleet.bridge("kubernetes", "--act", "all")).ready()
        yield Pair(MOORAGE, (BRIDGES,), fleet.knows, leader.kill)


# Two processes of services, each of which owns a half of the partitions: each service is a process as in
# `moorage up --separate`, and eviction has a second one; or all services share a process, and there are two of them.


@asynccontextmanager
async def _members(plane: Plane, options: Options, *, names: tuple[str, ...], case: str) -> AsyncIterator[Pair]:
    async with (
        sides.controllers(plane, flags={"KCM_FLAGS": WITHOUT_TAINTS}, ends=(MANAGER, SCHEDULER)),
        sides.moorage(
            options.bootstrap, plane, options.folder, together=len(names) > 1, partitions=_SHARED_PARTITIONS
        ) as fleet,
    ):
        specs = [child.spec for child in fleet.stack.supervisor.children]
        first = next(spec for spec in specs if set(names) <= set(spec.arguments))
        log = options.folder / f"{fleet.prefix}-member.log"
        with log.open("wb") as output:
            environment = {**first.environment, "MOORAGE_HTTP_PORT": "0"}
            second = await launch(("run", "--with-parent", *names), environment, output)
        try:
            await (await fleet.bridge("kubernetes", "--act", "all")).leads()
            await sides.until(
                lambda: _are_even((first.ready_url, log), names), _SECONDS, "two members do not share the partitions"
            )

            async def kill() -> None:
                second.kill()
                await second.wait()

            yield Pair(MOORAGE, (case,), fleet.knows, kill)
        finally:
            if second.returncode is None:
                second.kill()
                await second.wait()


async def _are_even(members: tuple[str, Path], names: tuple[str, ...]) -> bool:
    """Whether each member runs a half of the partitions of each service, and is a warm standby of the others."""
    told: list[dict[str, Any]] = []
    with suppress(httpx.HTTPError, ValueError, KeyError):
        async with httpx.AsyncClient(timeout=5, trust_env=False) as http:
            for address in (members[0], f"http://127.0.0.1:{sides.listening_port(members[1])}/readyz"):
                told.append((await http.get(address)).json()["services"])  # noqa: PERF401 - each waits for an answer
        return all(_is_even([one[name] for one in told]) for name in grouped(names))
    return False


def _is_even(members: list[Document]) -> bool:
    owned: list[int] = [sum(one["phase"] == "Running" for one in member["partitions"].values()) for member in members]
    warm: int = sum(state == "Warm" for member in members for state in member["standbys"].values())
    return min(owned) > 0 and max(owned) - min(owned) <= 1 and warm == sum(owned)


PAIRS: Final[Mapping[str, Mapping[str, Callable[[Plane, Options], AbstractAsyncContextManager[Pair]]]]] = {
    UPSTREAM: {"one of two kube-controller-managers": _managers},
    MOORAGE: {
        BRIDGES: _bridges,
        EVICTIONS: partial(_members, names=("eviction",), case=EVICTIONS),
        SERVICES: partial(_members, names=tuple(services.names()), case=SERVICES),
    },
}
