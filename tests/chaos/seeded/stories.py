"""Stories drawn from a seed: a fleet, what people, probes and deployers do with it, and what breaks meanwhile."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from tests.chaos.seeded.acts import ACTS, NOT_READY, UNREACHABLE
from tests.chaos.seeded.kafka.cluster import Faults
from tests.chaos.seeded.kafka.disturb import FAULTS
from tests.chaos.seeded.kafka.inputs import OCM, tolerate
from tests.chaos.seeded.kafka.transactions import Stage
from tests.chaos.seeded.kafka.world import CHAINED, SERVICES, World
from tests.chaos.seeded.themes import THEMES, draw_theme

TAINTS: Final = ("maint", "gpu", "old")
SECONDS: Final = (None, 0, 2, 4, 8)
"""For how long work tolerates a taint; None for ever."""

LONGEST: Final = 12.0
"""Seconds after which every deadline of a story is over."""

_ASKED_AGAIN: Final = 100.0
"""Seconds after which an eviction whose answer was lost has asked again."""

_RECONCILED: Final = 75.0
"""Seconds after which what compaction took away unread is repaired: by the reconcilers, and by placement when nothing
is heard of a resource for a minute."""

_ROUND: Final = 31.0
"""Seconds in which every reconciler has a round."""

_STANDING: Final = 4
"""One story in so many ends with some time in which nobody does anything. In the others is found what the reconcilers
would repair in that time."""

_CONFIGURED: Final = 0.15
"""In how many stories somebody changes the configuration."""

_FAULTS: Final = tuple(name for name in FAULTS if name != "lose-markers")
"""Markers are never lost out of the blue: see `_hang`."""

_THEMED: Final = 0.5
"""Of how many stories a theme decides; the others are an ordinary mixture."""


_ON_THE_WAY: Final = 0.03
"""In how many stories something is accepted that saves a pod, while a service before eviction is away."""

_LEAVING: Final = 0.04
"""In how many stories there are requests to leave."""
_POLICIES: Final = 0.04
"""In how many stories TaintPolicies act on targets of every kind."""

_WRONG_CLOCKS: Final = 0.05
"""In how many stories processes correct their clocks, and one of them has a wrong one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens: after a while somebody does something."""

    after: float
    """Virtual seconds since the step before."""

    what: str
    """The name of a deed in `DEEDS`, or of a fault."""

    seed: int
    """What the deed draws from, so that it is the same when other steps are left out."""


@dataclass(frozen=True, slots=True)
class Plot:
    """All that is drawn before a run begins."""

    seed: int
    nodes: int
    pods: int
    workers: int
    partitions: int
    settings: Mapping[str, Any]
    kinds: frozenset[str]
    """Which kinds of targets there are, beside nodes: Cluster, ManagedCluster."""

    slow: float
    """How often a request takes long."""

    cleaned: bool
    """Whether topics are compacted and cut off within seconds."""

    expiring: bool
    """Whether the governor's answers are gone after a moment."""

    guarded: bool
    """Whether pauses and budgets stand to the end."""

    late: float = 0.02
    """How often one partition of a fetch comes later than the others."""

    theme: str = ""
    """The name of its theme; empty for the ordinary mixture."""

    acknowledging: bool = False
    """Whether a deployer runs all that is bound and acknowledges evictions. No seed draws this."""

    chained: bool = False
    """Whether the services of a chain run as one. No seed draws this."""

    steps: tuple[Step, ...] = field(default=())

    def without(self, chosen: frozenset[int]) -> Plot:
        """The same, without some of the steps; the time of what follows stays."""
        kept: list[Step] = []
        waited = 0.0
        for number, step in enumerate(self.steps):
            if number in chosen:
                waited += step.after
            else:
                kept.append(Step(step.after + waited, step.what, step.seed))
                waited = 0.0
        return Plot(**{name: getattr(self, name) for name in self.__slots__ if name != "steps"}, steps=tuple(kept))


def theme_of(seed: int) -> str:
    """The theme of a seed's story; empty for the ordinary mixture."""
    if Random(f"{seed}/clocks").random() < _WRONG_CLOCKS:  # noqa: S311 - drawn to be repeated
        return "clocks"
    if Random(f"{seed}/on the way").random() < _ON_THE_WAY:  # noqa: S311 - drawn to be repeated
        return "on the way"
    if Random(f"{seed}/requests").random() < _LEAVING:  # noqa: S311 - drawn to be repeated
        return "requests"
    if Random(f"{seed}/policies").random() < _POLICIES:  # noqa: S311 - drawn to be repeated
        return "policies"
    rng = Random(f"{seed}/theme")  # noqa: S311 - drawn to be repeated
    return draw_theme(rng) if rng.random() < _THEMED else ""


def draw(seed: int, *, long: bool = False) -> Plot:
    """Draw a plot.

    Args:
        seed: decides all of it.
        long: whether there is more of everything.
    """
    name = theme_of(seed)
    plot = _themed(seed, name, long=long) if name else _mixture(seed, long=long)
    return _reconfigured(plot, scale=3 if long else 1)


def _reconfigured(plot: Plot, *, scale: int) -> Plot:
    """In some stories, the same with changes of the configuration among the steps, which take no time."""
    rng = Random(f"{plot.seed}/configuration")  # noqa: S311 - drawn to be repeated
    if rng.random() >= _CONFIGURED:
        return plot
    steps = list(plot.steps)
    for _ in range(rng.randint(1, 4) * scale):
        steps.insert(rng.randint(0, len(steps)), Step(0.0, "configure", rng.getrandbits(32)))
    return replace(plot, steps=tuple(steps))


def _themed(seed: int, name: str, *, long: bool) -> Plot:
    """A mixture with fewer steps, and with scenes of a theme among them."""
    theme, plot = THEMES[name], _mixture(seed, long=long)
    rng = Random(f"{seed}/{name}")  # noqa: S311 - drawn to be repeated
    settings = dict(plot.settings) | {field: rng.choice(values) for field, values in theme.settings.items()}
    settings["partitions"] = rng.choice(theme.partitions)
    kinds = plot.kinds & theme.kinds if rng.random() < 0.9 else plot.kinds
    if "Cluster" in theme.kinds - plot.kinds:
        settings = _cluster_settings(rng) | settings
    kinds |= theme.kinds
    faults = {*_FAULTS, "hang"} if rng.random() >= theme.faulty else set[str]()
    usual = [
        step
        for step in plot.steps
        if step.what not in faults
        and (faults == set() or not step.what.startswith("away-"))
        and (step.what not in _WEIGHTS or _WEIGHTS[step.what][1] in {"", *kinds})
    ][: rng.randint(*theme.rest) * (3 if long else 1)]
    steps = list(usual)
    for _ in range(rng.choice([1, 1, 2]) * (3 if long else 1)):
        place = rng.randint(0, len(steps)) if rng.random() < 0.5 else 0
        steps[place:place] = _acts(rng.choice(theme.scenes)(rng), rng)
    return replace(
        plot,
        theme=name,
        nodes=rng.randint(*theme.nodes),
        pods=rng.randint(*theme.pods),
        workers=rng.choice(theme.workers),
        partitions=settings["partitions"],
        settings=settings,
        kinds=kinds,
        slow=rng.choice(theme.slow),
        late=rng.choice(theme.late),
        cleaned=plot.cleaned if theme.cleaned is None else theme.cleaned,
        expiring=rng.random() < theme.expiring,
        guarded=plot.guarded if theme.guarded is None else theme.guarded,
        steps=tuple(steps),
    )


def _acts(scene: str, rng: Random) -> list[Step]:
    """A scene's steps."""
    found = (act.strip().partition(" ") for act in scene.split(";"))
    return [Step(float(after), what, rng.getrandbits(32)) for after, _, what in found]


def _cluster_settings(rng: Random) -> dict[str, Any]:
    return {
        "feature_gates": "Failover=true",
        "enable_no_execute_taint_eviction": True,
        "resource_eviction_rate": rng.choice([math.inf, 2.0, 0.5]),
        "graceful_eviction_timeout": 5,
    }


def _mixture(seed: int, *, long: bool) -> Plot:
    rng = Random(f"{seed}/plot")  # noqa: S311 - drawn to be repeated
    scale = 3 if long else 1
    kinds = frozenset(kind for kind in ("Cluster", "ManagedCluster") if rng.random() < 0.2)
    settings: dict[str, Any] = {
        "partitions": rng.choice([1, 1, 2]),
        "node_monitor_grace_period": rng.choice([0, 0, 0, 6]),
        "node_monitor_period": rng.choice([0, 0, 2]),
        "node_eviction_rate": rng.choice([math.inf, math.inf, 1.0, 0.2]),
        "taint_add_hold": rng.choice([0, 0, 0, 3]),
        "taint_remove_hold": rng.choice([0, 0, 0, 2]),
        "reconcile_interval": rng.choice([30.0, 30.0, 4.0]),
        "disruption_budget_patience": 20,
    }
    settings["secondary_node_eviction_rate"] = rng.choice([settings["node_eviction_rate"], math.inf])
    settings["large_cluster_size_threshold"] = 0 if settings["secondary_node_eviction_rate"] == math.inf else 50
    if "Cluster" in kinds:
        settings |= _cluster_settings(rng)
    weights = {name: weight for name, (weight, kind) in _WEIGHTS.items() if kind in {"", *kinds}}
    faulty = rng.random() < 0.85
    breaking = {name: rng.choice([0, 1, 3]) for name in (*_FAULTS, "hang")} if faulty else {}
    share = rng.choice([0.1, 0.25, 0.4]) if any(breaking.values()) else 0.0
    pace = rng.choice([0.05, 0.4, 1.5])
    steps = []
    for _ in range(rng.randint(8, 22) * scale):
        chosen = breaking if rng.random() < share else weights
        (what,) = rng.choices(list(chosen), list(chosen.values()))
        after = min(10.0, rng.expovariate(1 / pace)) if rng.random() < 0.8 else rng.uniform(0, 6)
        steps.append(Step(round(after, 3), what, rng.getrandbits(32)))
    expiring = rng.random() < 0.1
    if rng.random() < 0.4 or expiring:
        place = rng.randrange(len(steps))
        steps[place:place] = _absence(rng, kinds, expiring=expiring)
    return Plot(
        seed=seed,
        nodes=rng.randint(1, 4 * scale),
        pods=rng.randint(1, 5 * scale),
        workers=rng.choice([1, 2, 2]),
        partitions=int(settings["partitions"]),
        settings=settings,
        kinds=kinds,
        slow=rng.choice([0.0, 0.0, 0.02]),
        cleaned=rng.random() < 0.3,
        expiring=expiring,
        guarded=rng.random() < 0.4,
        steps=tuple(steps),
    )


_LOST_ANSWER: Final = ("pause-all taint", "away-eviction", "resume-all", "")
_ABSENCES: Final[tuple[tuple[str, str, str, str], ...]] = (
    _LOST_ANSWER,
    ("taint", "away-eviction", "untaint", ""),
    ("report", "away-eviction", "recover", ""),
    ("pod", "away-eviction", "drop-pod", ""),
    ("taint", "away-taint-manager", "untaint", ""),
    ("report", "away-taint-manager", "recover", ""),
    ("report", "away-governor", "outage", ""),
    ("budget", "away-governor", "drop-budget", ""),
    ("taint", "away-placement", "untaint", ""),
    ("taint", "away-timer", "untaint", ""),
    ("report", "away-condition-ingest", "recover", ""),
    ("managed-report", "away-taint-manager", "managed-cluster", "ManagedCluster"),
    ("cluster-taint", "away-eviction", "cluster-untaint", "Cluster"),
)
"""What happens, who is away then, and what happens meanwhile; by kinds of targets that it takes."""


def _absence(rng: Random, kinds: frozenset[str], *, expiring: bool) -> list[Step]:
    """A service is away between two deeds that belong together: they draw from one seed, so they mean the same."""
    choice = rng.choice([one for one in _ABSENCES if one[3] in {"", *kinds}])
    before, away, meanwhile, _ = _LOST_ANSWER if expiring else choice
    seed = rng.getrandbits(32)
    first, second = rng.choice([0.02, 0.3, 1.2]), rng.choice([0.05, 0.5, 1.5])
    return [
        *(Step(0.5, what, seed) for what in before.split()),
        Step(first, away, rng.getrandbits(32)),
        Step(second, meanwhile, seed),
    ]


_WEIGHTS: Final[Mapping[str, tuple[float, str]]] = {
    "taint": (6, ""),
    "untaint": (5, ""),
    "flash": (2, ""),
    "report": (6, ""),
    "recover": (4, ""),
    "flap": (2, ""),
    "pod": (3, ""),
    "drop-pod": (2, ""),
    "deploy": (2, ""),
    "node": (1, ""),
    "drop-node": (1, ""),
    "pause": (2, ""),
    "resume": (3, ""),
    "resume-all": (1, ""),
    "budget": (2, ""),
    "drop-budget": (2, ""),
    "disruption-budget": (1, ""),
    "wait": (4, ""),
    "apply": (2, ""),
    "outage": (1.5, ""),
    "outage-over": (1.5, ""),
    "stray": (1, ""),
    "cluster-taint": (3, "Cluster"),
    "cluster-untaint": (2, "Cluster"),
    "cluster-report": (2, "Cluster"),
    "cluster-policy": (1, "Cluster"),
    "managed-taint": (3, "ManagedCluster"),
    "managed-untaint": (2, "ManagedCluster"),
    "managed-report": (3, "ManagedCluster"),
    "managed-cluster": (1, "ManagedCluster"),
}


class Play:
    """Plays a plot in a world."""

    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self.told: list[str] = []
        """What happened, a line each, with its time."""

    def world(self, **options: Any) -> World:
        """The world in which it happens."""
        plot = self.plot
        # Tombstones that are kept for seconds only make every process look all the time, which costs a run double.
        kept = "8000" if plot.seed % 8 == 0 else "50000"
        config = {"": {"min.compaction.lag.ms": "3000", "delete.retention.ms": kept}} if plot.cleaned else {}
        if plot.expiring:
            config["eviction-answers"] = {"retention.ms": "500"}
        return World(
            plot.seed,
            workers=plot.workers,
            settings=dict(plot.settings),
            faults=Faults(slow=plot.slow, fetch_slow=plot.late),
            topic_config=config,
            max_time=20_000.0,
            max_steps=300_000,
            one_clock=plot.theme == "clocks",
            **{"services": CHAINED if plot.chained else tuple(SERVICES), **options},
        )

    async def __call__(self, world: World) -> None:  # noqa: C901 - what is drawn, one after the other
        """The story."""
        await world.ready()
        people, plot = world.people, self.plot
        if plot.cleaned or plot.expiring:
            world.cluster.clean_every(1.5)
        rng = Random(f"{plot.seed}/fleet")  # noqa: S311 - drawn to be repeated
        world.acknowledging_deployer(seed=f"{plot.seed}/deployer", after=0.2, idle=not plot.acknowledging)
        if "Cluster" in plot.kinds:
            world.deployer(after=rng.choice([0.2, 2.0]), idle=plot.acknowledging)
            for number in range(3):
                people.declare("Cluster", f"c{number}")
                people.report("Cluster", f"c{number}", status="True")
            people.declare("ConfigMap", "shared")
            _policy(people, rng)
        if "ManagedCluster" in plot.kinds:
            _managed(people)
        zones = THEMES[plot.theme].zones if plot.theme else "aab"
        for number in range(plot.nodes):
            people.node(f"n{number}", zone=rng.choice(zones))
            people.report("Node", f"n{number}", status="True")
        for number in range(plot.pods):
            people.pod(f"p{number}", _tolerations(rng))
        await asyncio.sleep(rng.choice([0.0, 1.0]))
        for step in plot.steps:
            await asyncio.sleep(step.after)
            draws = Random(step.seed)  # noqa: S311 - drawn to be repeated
            if step.what in FAULTS:
                world.rng = draws
                said = FAULTS[step.what](world)
            elif (act := step.what.split())[0] in ACTS and step.what not in DEEDS:
                said = ACTS[act[0]](world, *act[1:])
            else:
                said = DEEDS[step.what](world, draws)
            self.told.append(f"{world.loop.time():9.3f}  {step.what}: {said}")
        await asyncio.sleep(LONGEST)
        for key in [key for key in people.objects if key.startswith(("EvictionPause/", "EvictionBudget/"))]:
            kind, _, name = key.split("/")
            if not plot.guarded:
                people.delete(kind, name)
        await asyncio.sleep(1.0)
        world.mend()
        await world.ready(within=600.0)
        await asyncio.sleep(_ASKED_AGAIN if plot.expiring else _RECONCILED if plot.cleaned else LONGEST)
        await world.settle()
        await world.stand(_ROUND if plot.seed % _STANDING == 1 else 0.0)


def _tolerations(rng: Random) -> list[dict[str, Any]]:
    found = [tolerate(key, rng.choice(SECONDS)) for key in TAINTS if rng.random() < 0.5]
    if rng.random() < 0.2:  # only the first that matches counts
        found.append(tolerate(rng.choice(TAINTS), rng.choice(SECONDS)))
    # Not the defaults' 300 s, which would outlast the story.
    found += [tolerate(key, rng.choice([0, 3, 6])) for key in (NOT_READY, UNREACHABLE)]
    return found


def _policy(people: Any, rng: Random) -> None:
    tolerations = [tolerate("maint", rng.choice([1, 4]))] if rng.random() < 0.5 else []
    people.declare(
        "PropagationPolicy",
        "all",
        {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {
                "clusterAffinity": {"clusterNames": ["c0", "c1", "c2"]},
                "clusterTolerations": tolerations,
            },
        },
    )


def _managed(people: Any) -> None:
    people.declare("ManagedClusterSet", "all", {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}})
    people.declare("ManagedClusterSetBinding", "all", {"clusterSet": "all"})
    for number in range(3):
        people.declare("ManagedCluster", f"m{number}", labels={f"{OCM}/clusterset": "all"})
        people.report("ManagedCluster", f"m{number}", "ManagedClusterConditionAvailable", "True")
    people.declare("Placement", "all")
    people.declare("Placement", "some", {"numberOfClusters": 2})
    people.declare(
        "Placement", "every", {"tolerations": [{"key": "maint", "operator": "Exists", "tolerationSeconds": 4}]}
    )


Deed = Callable[[World, Random], str]


def _hang(world: World, rng: Random) -> str:
    """The broker hangs for longer than its session, and loses the markers of what was being committed.

    What is lost is as on Kafka: whatever was asked for while it hung, with the offsets. Markers of what was decided
    before that, and not yet marked, are spared: whoever asked for it has his answer, and may have gone on.
    """
    cluster, seconds = world.cluster, rng.choice([1.0, 7.0])
    if not cluster.answers:
        return "nothing: the broker is away"
    cluster.freeze()
    decided = [found for found in cluster.transactions.by_id.values() if found.stage is Stage.PREPARED]
    cluster.transactions.losing = set(cluster.logs) - {tp for found in decided for tp in found.parts}

    def thaw() -> None:
        if cluster.frozen:
            cluster.thaw()
        world.loop.call_later(0.002, found, context=cluster.context)

    def found() -> None:
        cluster.transactions.losing = None

    world.loop.call_later(seconds, thaw, context=cluster.context)
    return f"for {seconds:g} s"


def _names(world: World, kind: str) -> list[str]:
    return sorted(key.rpartition("/")[2] for key in world.people.objects if key.startswith(f"{kind}/"))


def _one(world: World, kind: str, rng: Random) -> str | None:
    names = _names(world, kind)
    return rng.choice(names) if names else None


def _taint(kind: str, *, present: bool, effects: tuple[str, ...] = ("NoExecute", "NoExecute", "NoSchedule")) -> Deed:
    def deed(world: World, rng: Random) -> str:
        name = _one(world, kind, rng)
        if name is None:
            return "nobody"
        key, effect = rng.choice(TAINTS), rng.choice(effects)
        world.people.taint(kind, name, key, effect, present=present)
        return f"{name} {key}:{effect}{'' if present else '-'}"

    return deed


def _flash(world: World, rng: Random) -> str:
    """A taint that is taken away at once."""
    name = _one(world, "Node", rng)
    if name is None:
        return "nobody"
    key = rng.choice(TAINTS)
    world.people.taint("Node", name, key)
    world.people.untaint("Node", name, key)
    return f"{name} {key}"


def _report(kind: str, condition: str, statuses: tuple[str, ...]) -> Deed:
    def deed(world: World, rng: Random) -> str:
        name = _one(world, kind, rng)
        if name is None:
            return "nobody"
        status = rng.choice(statuses)
        world.people.report(kind, name, condition, status)
        return f"{name} {condition}={status}"

    return deed


def _flap(world: World, rng: Random) -> str:
    name = _one(world, "Node", rng)
    if name is None:
        return "nobody"
    for status in ("False", "True", "Unknown", "True")[: rng.choice([2, 4])]:
        world.people.report("Node", name, status=status)
    return name


def _pod(world: World, rng: Random) -> str:
    name = f"p{rng.randrange(8)}"
    if f"Pod/default/{name}" in world.people.objects:
        return f"{name} is there"
    world.people.pod(name, _tolerations(rng))
    return name


def _drop(kind: str) -> Deed:
    def deed(world: World, rng: Random) -> str:
        name = _one(world, kind, rng)
        if name is None:
            return "nobody"
        world.people.delete(kind, name)
        return name

    return deed


def _deploy(world: World, rng: Random) -> str:
    name, replicas = rng.choice(["web", "db"]), rng.randrange(4)
    world.people.deploy(name, replicas)
    return f"{name} x{replicas}"


def _node(world: World, rng: Random) -> str:
    name = f"n{rng.randrange(6)}"
    if f"Node//{name}" not in world.people.objects:
        world.people.node(name, zone=rng.choice(["a", "b"]))
    return name


def _pause(world: World, rng: Random) -> str:
    name = rng.choice(["first", "second"])
    scope = rng.choice([{}, {}, {"namespaces": ["default"]}, {"namespaces": ["other"]}])
    world.people.declare("EvictionPause", name, {"scope": scope})
    return f"{name} {scope}"


def _pause_all(world: World, _rng: Random) -> str:
    world.people.declare("EvictionPause", "first", {"scope": {}})
    return "first"


def _resume_all(world: World, _rng: Random) -> str:
    names = _names(world, "EvictionPause")
    for name in names:
        world.people.delete("EvictionPause", name)
    return " ".join(names)


def _budget(world: World, rng: Random) -> str:
    spec: dict[str, Any] = rng.choice(
        [{"maxConcurrent": 1}, {"maxConcurrent": 2}, {"maxInWindow": 1, "windowSeconds": 5}, {"maxConcurrent": 0}]
    )
    name = rng.choice(["slow", "slower"])
    world.people.declare("EvictionBudget", name, spec)
    return f"{name} {spec}"


def _disruption(world: World, rng: Random) -> str:
    spec = {"minAvailable": rng.randrange(3), "selector": {"matchLabels": {"app": "web"}}}
    world.people.declare("PodDisruptionBudget", "web", spec)
    return str(spec)


def _cluster_policy(world: World, rng: Random) -> str:
    effect = "NoSchedule"
    world.people.declare(
        "ClusterTaintPolicy",
        "policy",
        {
            "targetClusters": {"clusterNames": [f"c{rng.randrange(3)}"]},
            "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}],
            "removeOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
            "taints": [{"key": "policy", "effect": effect}],
        },
    )
    return effect


def _managed_cluster(world: World, rng: Random) -> str:
    name = f"m{rng.randrange(5)}"
    if f"ManagedCluster//{name}" in world.people.objects:
        world.people.delete("ManagedCluster", name)
        return f"{name} goes"
    world.people.declare("ManagedCluster", name, labels={f"{OCM}/clusterset": "all"})
    world.people.report("ManagedCluster", name, "ManagedClusterConditionAvailable", "True")
    return name


def _apply(world: World, rng: Random) -> str:
    """Somebody applies an old file of a node, with the taints that its state had then."""
    name = _one(world, "Node", rng)
    if name is None:
        return "nobody"
    key = rng.choice([NOT_READY, UNREACHABLE])
    for effect in ("NoSchedule", "NoExecute"):
        world.people.taint("Node", name, key, effect)
    return f"{name} {key}"


def _outage(status: str) -> Deed:
    """Every node says the same at once."""

    def deed(world: World, _rng: Random) -> str:
        names = _names(world, "Node")
        for name in names:
            world.people.report("Node", name, status=status)
        return f"{len(names)} nodes Ready={status}"

    return deed


def _away(service: str) -> Deed:
    """Every worker of a service is killed, and comes back a while later."""

    def deed(world: World, rng: Random) -> str:
        back = rng.choice([1.0, 3.0, 6.0, 9.0])
        for replica in world.of(service):
            replica.crash(back_after=back + rng.random() / 5)
        return f"until after {back:g} s"

    return deed


def _stray(world: World, rng: Random) -> str:
    """A probe reports what nobody has declared."""
    name = f"nowhere{rng.randrange(3)}"
    world.people.report("Node", name, status=rng.choice(["True", "False"]))
    return name


def _configure(world: World, rng: Random) -> str:
    """Somebody changes one or two settings of the fleet. They count without a restart."""
    chosen = rng.sample(sorted(_SETTINGS), rng.choice([1, 1, 2]))
    changes = {name: rng.choice(_SETTINGS[name]) for name in chosen}
    world.people.configure(**changes)
    return " ".join(f"{name}={value}" for name, value in changes.items())


_SETTINGS: Final[Mapping[str, tuple[Any, ...]]] = {
    "node_monitor_grace_period": (0, 6),
    "node_monitor_period": (0, 2),
    "node_eviction_rate": (math.inf, 1.0, 0.2),
    "resource_eviction_rate": (math.inf, 2.0, 0.5),
    "taint_add_hold": (0, 3),
    "taint_remove_hold": (0, 2),
    "disruption_budget_patience": (3, 20),
    "graceful_eviction_timeout": (2, 5),
    "evict_without_replacement": (False, True),
    "eviction_retention": (2, 86_400),
    "feature_gates": ("", "Failover=true"),
    "enable_no_execute_taint_eviction": (False, True),
}
"""The settings that people change, with their values."""


def _wait(_world: World, _rng: Random) -> str:
    return "nothing"


DEEDS: Final[Mapping[str, Deed]] = {
    "configure": _configure,
    "taint": _taint("Node", present=True),
    "untaint": _taint("Node", present=False),
    "flash": _flash,
    "report": _report("Node", "Ready", ("False", "False", "Unknown", "True")),
    "recover": _report("Node", "Ready", ("True",)),
    "flap": _flap,
    "pod": _pod,
    "drop-pod": _drop("Pod"),
    "deploy": _deploy,
    "node": _node,
    "drop-node": _drop("Node"),
    "pause": _pause,
    "resume": _drop("EvictionPause"),
    "pause-all": _pause_all,
    "resume-all": _resume_all,
    "budget": _budget,
    "drop-budget": _drop("EvictionBudget"),
    "disruption-budget": _disruption,
    "cluster-taint": _taint("Cluster", present=True),
    "cluster-untaint": _taint("Cluster", present=False),
    "cluster-report": _report("Cluster", "Ready", ("False", "Unknown", "True")),
    "cluster-policy": _cluster_policy,
    "managed-taint": _taint("ManagedCluster", present=True, effects=("NoSelect", "NoSelectIfNew", "PreferNoSelect")),
    "managed-untaint": _taint("ManagedCluster", present=False, effects=("NoSelect", "NoSelectIfNew", "PreferNoSelect")),
    "managed-report": _report(
        "ManagedCluster", "ManagedClusterConditionAvailable", ("False", "Unknown", "True", "True")
    ),
    "managed-cluster": _managed_cluster,
    "apply": _apply,
    "stray": _stray,
    "outage": _outage("False"),
    "outage-over": _outage("True"),
    **{f"away-{service}": _away(service) for service in SERVICES},
    "wait": _wait,
    "hang": _hang,
}
"""What people and probes do, each told in a few words."""
