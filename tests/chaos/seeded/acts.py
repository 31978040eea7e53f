"""The acts of scenes. Each is written as words: `taint n0 now`, `away eviction 3`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random
from typing import Any, Final

from tests.chaos.seeded.kafka.inputs import OCM, tolerate
from tests.chaos.seeded.kafka.transactions import Stage, Transactional
from tests.chaos.seeded.kafka.world import SERVICES, Replica, World

from moorage_schemas.placement import WorkloadBound

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"


def tolerations(seconds: int) -> list[dict[str, Any]]:
    """Of not being ready for some seconds, and not for the defaults' 300 s, which would outlast the story."""
    return [tolerate(key, seconds) for key in (NOT_READY, UNREACHABLE)]


Act = Callable[..., str]


def _each(world: World, name: str) -> list[tuple[str, str]]:
    """The declared targets that are meant: one by its name, or every node."""
    kinds = ("Node", "Cluster")
    found = [(key.partition("/")[0], key.rpartition("/")[2]) for key in sorted(world.people.objects)]
    return [(kind, one) for kind, one in found if kind in kinds and (one == name or (name == "all" and kind == "Node"))]


def _taint(*, present: bool) -> Act:
    def act(world: World, name: str, key: str) -> str:
        targets = _each(world, name)
        for kind, one in targets:
            world.people.taint(kind, one, key, present=present)
        return f"{len(targets)} targets"

    return act


def _report(world: World, name: str, status: str, ago: str = "0") -> str:
    targets = _each(world, name)
    for kind, one in targets:
        world.people.report(kind, one, status=status, ago=timedelta(seconds=float(ago)))
    return f"{len(targets)} targets"


def _burst(world: World, count: str) -> str:
    """Several conditions of every node at once."""
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
    for kind, one in _each(world, "all"):
        for condition in kinds[: int(count)]:
            world.people.report(kind, one, condition, "True")
    return "reported"


def _stream(world: World, count: str, every: str) -> str:
    """One condition after another, for some seconds, each with a report that nobody has declared a target for."""
    people, rng = world.people, Random(count)  # noqa: S311 - drawn to be repeated

    async def speak() -> None:
        for number in range(int(count)):
            targets = _each(world, "all")
            if targets:
                kind, one = rng.choice(targets)
                people.report(kind, one, f"Custom{number}", "True")
                people.report(kind, "nowhere", f"Custom{number}", "True")
            await asyncio.sleep(float(every))

    world.outside.spawn(speak())
    return "begins"


def _pods(world: World, count: str, seconds: str) -> str:
    made = [f"q{number}" for number in range(int(count)) if f"Pod/default/q{number}" not in world.people.objects]
    for name in made:
        world.people.pod(name, tolerations(int(seconds)))
    return " ".join(made)


def _managed(world: World, name: str) -> str:
    if f"ManagedCluster//{name}" in world.people.objects:
        return "is there"
    world.people.declare("ManagedCluster", name, labels={f"{OCM}/clusterset": "all"})
    world.people.report("ManagedCluster", name, "ManagedClusterConditionAvailable", "True")
    return "declared"


def _touch(world: World, name: str) -> str:
    """Somebody applies a pod's file once more."""
    known = world.people.objects.get(world.people.key("Pod", name))
    if known is None:
        return "is not there"
    world.people.declare("Pod", name, known["spec"], labels={"touched": "yes"})
    return "declared again"


def _label(world: World, name: str, app: str) -> str:
    """Somebody gives a pod another label, by which budgets select."""
    known = world.people.objects.get(world.people.key("Pod", name))
    if known is None:
        return "is not there"
    world.people.declare("Pod", name, known["spec"], labels={"app": app})
    return "declared again"


def _pod(world: World, name: str, tolerated: str) -> str:
    if f"Pod/default/{name}" in world.people.objects:
        return "is there"
    world.people.pod(name, _tolerated(tolerated))
    return "declared"


def _pod_again(world: World, name: str, tolerated: str) -> str:
    if f"Pod/default/{name}" not in world.people.objects:
        return "is not there"
    world.people.pod(name, _tolerated(tolerated))
    return "changed"


def _tolerated(tolerated: str) -> list[dict[str, Any]]:
    found = [one.split("=") for one in tolerated.split(",")]
    return [*(tolerate(key, float(seconds)) for key, seconds in found), *tolerations(3)]


def _drop(world: World, kind: str, name: str) -> str:
    key = world.people.key(kind, name)
    if key not in world.people.objects:
        return "is not there"
    world.people.delete(kind, name)
    return "deleted"


def _taint_policy(world: World, kind: str, chosen: str, hold: str, effect: str) -> str:
    """Somebody taints the targets of a kind that are broken: all, one, or all but one (`!n0`)."""
    name = f"broken-{kind.lower()}"
    targets: dict[str, Any] = {"kind": kind}
    if chosen.startswith("!"):
        targets["exclude"] = [chosen[1:]]
    elif chosen != "all":
        targets["names"] = [chosen]
    if kind == "ManagedCluster":
        effect = {"NoSchedule": "NoSelectIfNew", "NoExecute": "NoSelect"}[effect]
    spec = {
        "targets": targets,
        "addOnConditions": [{"conditionType": "Broken", "operator": "In", "statusValues": ["True"]}],
        "removeOnConditions": [{"conditionType": "Broken", "operator": "In", "statusValues": ["False"]}],
        "taints": [{"key": f"{name}-{effect.lower()}", "effect": effect}],
        **({} if hold == "0" else {"addHold": f"{hold}s", "removeHold": "0s"}),
    }
    world.people.declare("TaintPolicy", name, spec)
    return f"{name} of {chosen}"


def _broken(world: World, name: str, status: str) -> str:
    """A probe reports one target, or each of a kind, as broken."""
    found = [key.partition("//") for key in sorted(world.people.objects) if "//" in key]
    kinds = ("Node", "Cluster", "ManagedCluster")
    targets = [(kind, one) for kind, _, one in found if kind in kinds and name in {one, kind}]
    for kind, one in targets:
        world.people.report(kind, one, "Broken", status)
    return f"{len(targets)} targets"


def _node(world: World, name: str, zone: str) -> str:
    if f"Node//{name}" in world.people.objects:
        return "is there"
    world.people.node(name, zone=zone)
    return "declared"


def _deploy(world: World, name: str, replicas: str) -> str:
    world.people.deploy(name, int(replicas))
    return "declared"


def _configmaps(world: World, count: str) -> str:
    for number in range(int(count)):
        world.people.declare("ConfigMap", f"shared{number}")
    return "declared"


def _claim(world: World, name: str) -> str:
    """A policy places a deployment on clusters."""
    world.people.declare(
        "PropagationPolicy",
        f"claims-{name}",
        {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
            "placement": {"clusterAffinity": {"clusterNames": ["c0", "c1", "c2"]}},
        },
    )
    return "declared"


def _budget(world: World, how: str, amount: str, seconds: str = "0") -> str:
    spec = {"maxConcurrent": int(amount)}
    if how == "window":
        spec = {"maxInWindow": int(amount), "windowSeconds": int(seconds)}
    world.people.declare("EvictionBudget", "slow", spec)
    return str(spec)


def _budget_of(world: World, app: str, amount: str) -> str:
    """Of what has a label."""
    spec = {"maxConcurrent": int(amount), "scope": {"selector": {"matchLabels": {"app": app}}}}
    world.people.declare("EvictionBudget", "slow", spec)
    return str(spec)


def _disruption_budget(world: World, least: str) -> str:
    spec = {"minAvailable": int(least), "selector": {"matchLabels": {"app": "web"}}}
    world.people.declare("PodDisruptionBudget", "web", spec)
    return str(spec)


def _away(world: World, service: str, seconds: str) -> str:
    for replica in world.of(service):
        replica.crash(back_after=float(seconds))
    return "killed"


def _crash_one(world: World, service: str, seconds: str) -> str:
    world.of(service)[0].crash(back_after=float(seconds))
    return "killed"


def _stop(world: World, service: str, seconds: str) -> str:
    for replica in world.of(service):
        replica.pause(float(seconds))
    return "stopped"


def _skew(world: World, service: str, seconds: str) -> str:
    for replica in world.of(service):
        replica.skew(float(seconds))
    return "set"


def _stop_writing(world: World, service: str, seconds: str) -> str:
    """Stop every worker of a service as soon as the broker has a record of its first changelog, uncommitted yet."""
    changelog = SERVICES[service].service(world.settings).changelogs[0]
    cluster, loop, replicas = world.cluster, world.loop, world.of(service)
    logs = [log for tp, log in cluster.logs.items() if tp.topic == changelog.name(world.settings.topic_prefix)]
    ends = sum(log.end for log in logs)
    if loop.before_step is not None:
        return "nothing: another is to come"

    def look() -> None:
        if sum(log.end for log in logs) > ends:
            loop.before_step = None
            for replica in replicas:
                replica.pause(float(seconds))

    loop.before_step = look
    return "to come"


def _stop_requested(world: World, seconds: str) -> str:
    """Stop eviction as soon as anybody can read what it has requested."""
    cluster, loop = world.cluster, world.loop
    known = len(cluster.entries)
    if loop.before_step is not None:
        return "nothing: another is to come"

    def look() -> None:
        nonlocal known
        new, known = cluster.entries[known:], len(cluster.entries)
        if any(entry.topic == "evictions" and b'"Requested"' in (entry.value or b"") for entry in new):
            loop.before_step = None
            for replica in world.of("eviction"):
                replica.pause(float(seconds))

    loop.before_step = look
    return "to come"


def _hang_writing(world: World, service: str, what: str, seconds: str) -> str:
    """The broker hangs while a service's transaction is open, for longer than its session, and loses its markers.

    `offsets` waits for a transaction that holds offsets, too; their marker is not lost.
    """
    cluster, loop = world.cluster, world.loop
    group, prefix = f"{world.settings.topic_prefix}.{service}.", world.settings.topic_prefix
    changelogs = {topic.name(prefix) for topic in SERVICES[service].service(world.settings).changelogs}
    if loop.before_step is not None:
        return "nothing: another is to come"

    def look() -> None:
        for found in cluster.transactions.by_id.values():
            state = found.id.startswith(group) and any(tp.topic in changelogs for tp in found.parts)
            if state and (found.groups or what != "offsets") and cluster.answers:
                loop.before_step = None
                cluster.freeze()
                loop.call_later(float(seconds), thaw, found, context=cluster.context)
                return

    def thaw(found: Transactional) -> None:
        if cluster.frozen:
            cluster.transactions.losing = set(found.parts)
            cluster.transactions.losing_begun_before = loop.time()
            cluster.thaw()
            wait(found, 2000)

    def wait(found: Transactional, left: int) -> None:
        """Until it is over, or left open."""
        if left and found.parts:
            loop.call_later(0.001, wait, found, left - 1, context=cluster.context)
        else:
            cluster.transactions.losing = None
            cluster.transactions.losing_begun_before = math.inf

    loop.before_step = look
    return "to come"


def _crash_written(world: World, service: str, what: str) -> str:
    """Kill every worker of a service as soon as a transaction of it, with offsets or with records, is complete."""
    cluster, loop, replicas = world.cluster, world.loop, world.of(service)
    group = f"{world.settings.topic_prefix}.{service}."
    if loop.before_step is not None:
        return "nothing: another is to come"
    seen: set[str] = set()

    def look() -> None:
        for found in cluster.transactions.by_id.values():
            if not found.id.startswith(group):
                continue
            if found.stage is Stage.EMPTY and found.id in seen:
                loop.before_step = None
                for replica in replicas:
                    if replica.process.alive:
                        replica.crash(back_after=0.3)
                return
            if found.groups if what == "offsets" else found.parts:
                seen.add(found.id)

    loop.before_step = look
    return "to come"


def _in_steps(world: World, service: str, steps: str, do: Callable[[Replica], None]) -> str:
    """Do something to every worker of a service after so many steps of its own."""
    left, loop, replicas = int(steps), world.loop, world.of(service)
    if loop.before_step is not None:
        return "nothing: another is to come"

    def count() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            loop.before_step = None
            for replica in replicas:
                if replica.process.alive:
                    do(replica)

    loop.before_step = count
    return "to come"


def _crash_in(world: World, service: str, steps: str) -> str:
    return _in_steps(world, service, steps, lambda replica: replica.crash(back_after=0.3))


def _stop_in(world: World, service: str, steps: str, seconds: str) -> str:
    return _in_steps(world, service, steps, lambda replica: replica.pause(float(seconds)))


def _leave(world: World, name: str, requester: str, seconds: str = "now") -> str:
    """Somebody requests that a pod leaves, as it was bound last."""
    key, bound = f"Pod/default/{name}|", None
    for entry in world.cluster.entries:
        if entry.topic == "bindings" and entry.key.startswith(key):
            bound = None if entry.value is None else WorkloadBound.model_validate_json(entry.value)
    if bound is None:
        return "is not bound"
    world.people.request_leave(requester, bound, None if seconds == "now" else float(seconds))
    return f"{bound.target.key}, {seconds}"


def _withdraw(world: World, name: str, requester: str) -> str:
    """The requester withdraws all requests about a pod."""
    leaves = [key for key in world.people.leaves if key.startswith(f"Pod/default/{name}|")]
    mine = [key for key in leaves if key.endswith(f"/{requester}")]
    for key in mine:
        world.people.withdraw_leave(key)
    return f"{len(mine)} requests"


ACTS: Final[Mapping[str, Act]] = {
    "taint": _taint(present=True),
    "taint-policy": _taint_policy,
    "broken": _broken,
    "untaint": _taint(present=False),
    "report": _report,
    "burst": _burst,
    "stream": _stream,
    "pods": _pods,
    "pod": _pod,
    "pod-again": _pod_again,
    "touch": _touch,
    "label": _label,
    "leave": _leave,
    "withdraw": _withdraw,
    "managed": _managed,
    "drop": _drop,
    "node": _node,
    "deploy": _deploy,
    "configmaps": _configmaps,
    "claim": _claim,
    "budget": _budget,
    "budget-of": _budget_of,
    "disruption": _disruption_budget,
    "away": _away,
    "crash-one": _crash_one,
    "stop": _stop,
    "skew": _skew,
    "crash-in": _crash_in,
    "crash-written": _crash_written,
    "stop-in": _stop_in,
    "stop-writing": _stop_writing,
    "stop-requested": _stop_requested,
    "hang-writing": _hang_writing,
}
"""By the first word."""
