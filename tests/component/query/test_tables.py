"""Explanations from the tables are byte for byte equal to those from a copy of the topics, after any history."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.component.query.following import Following
from tests.component.simulation.test_explain_managed import SelectingWorld
from tests.support.tables import table
from tests.support.worlds.karmada import ONE, KarmadaWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import TEMPLATE, lifted

from moorage.insight.explain.explanation import NotFoundError
from moorage.insight.explain.question import Question, QuestionError
from moorage.insight.query import query_tables
from moorage.runtime.wire import codec
from moorage_schemas.topics import CONDITIONS, PLACEMENTS, RESOURCES, Topic


async def agree(following: Following, *questions: Question) -> None:
    """Check that both ways give the same answer to each question, or the same error."""
    following.follow()
    for asked in questions:
        assert await told(following.explained, asked) == await told(following.from_topics, asked), asked


async def told(ask: Callable[[Question], Awaitable[str]], asked: Question) -> str:
    """An explanation, or the error."""
    try:
        return await ask(asked)
    except (NotFoundError, QuestionError) as error:
        return f"{type(error).__name__}: {error}"


def about(kind: str, name: str, namespace: str = "default", *, node: str = "", cluster: str = "") -> list[Question]:
    """Questions about an object: with the usual choice of targets, with all targets, and with one."""
    return [
        Question(kind, namespace, name),
        Question(kind, namespace, name, every=True),
        *([Question(kind, namespace, name, node=node)] if node else []),
        *([Question(kind, namespace, name, cluster=cluster)] if cluster else []),
    ]


async def test_pods_through_the_life_of_a_fleet() -> None:
    settings = lifted(partitions=3)
    world = NodeWorld("n1", "n2", "n3", settings=settings)
    following = Following(world.flow, settings)

    async def everybody() -> None:
        world.run()
        names = [*world.pods(), "gone"]
        questions = [one for name in names for one in about("Pod", name, node="n1", cluster="c")]
        await agree(following, *questions, *about("Deployment", "web"), *about("DaemonSet", "agent", node="n2"))
        nodes = ("n1", "n2", "n3", "gone")
        await agree(following, *(Question("Node", "", name, every=every) for name in nodes for every in (False, True)))

    patient = [{"key": "slow", "operator": "Exists", "tolerationSeconds": 60}]
    world.declare("Deployment", "web", {"replicas": 3, "template": {**TEMPLATE, "spec": pod_spec(tolerations=patient)}})
    world.declare("DaemonSet", "agent", {"template": TEMPLATE})
    world.declare("Pod", "bare", pod_spec("100m"))
    for name in ("n1", "n2", "n3"):
        world.report(name, status="True")
    await everybody()
    world.taint("n1", "slow")
    world.taint("n2", "full", "NoSchedule")
    await everybody()
    world.flow.advance(30)
    world.report("n3", status="False")
    await everybody()
    world.flow.advance(400)
    await everybody()
    world.untaint("n1", "slow")
    world.report("n3", status="True")
    world.delete("Pod", "bare")
    world.declare("DedicatedNodes", "d", {"value": "gpu"})
    await everybody()
    world.declare("Deployment", "web", {"replicas": 1, "template": TEMPLATE})
    world.delete("Node", "n2")
    await everybody()
    world.delete("Deployment", "web")
    await everybody()


async def test_a_pending_pod_that_is_placed_because_another_one_went() -> None:
    settings = lifted(partitions=3)
    world = NodeWorld(settings=settings)
    following = Following(world.flow, settings)
    world.node("n1", allocatable={"cpu": "1"})
    world.declare("Pod", "first", pod_spec("1"))
    world.run()
    world.declare("Pod", "second", pod_spec("1"))
    world.run()
    await agree(following, *about("Pod", "second", node="n1"))
    world.delete("Pod", "first")
    world.run()
    await agree(following, *about("Pod", "second", node="n1"))
    assert '"what": "Pod/default/first|Node/n1 deleted"' in await following.explained(
        Question("Pod", "default", "second")
    )


async def test_resources_on_karmada_clusters() -> None:
    world = KarmadaWorld("oslo", "paris", "rome")
    following = Following(world.flow, world.settings)

    async def everything() -> None:
        world.run()
        await agree(
            following,
            *about("Deployment", "web", cluster="paris", node="oslo"),
            *about("ResourceBinding", "web-deployment", cluster="rome"),
            *about("ResourceBinding", "gone"),
            *about("ConfigMap", "c"),
        )

    world.deploy("web", 3)
    world.declare("ConfigMap", "c")
    await everything()
    world.policy(
        placement={**ONE, "clusterTolerations": [{"key": "bad", "operator": "Exists", "tolerationSeconds": 60}]}
    )
    for name in ("oslo", "paris", "rome"):
        world.ready(name)
    await everything()
    world.taint("oslo")
    await everything()
    world.flow.advance(90)
    world.healthy("paris")
    await everything()
    world.untaint("oslo")
    world.delete("Cluster", "rome")
    await everything()
    world.delete("PropagationPolicy", "p")
    await everything()


async def test_placements_on_managed_clusters() -> None:
    world = SelectingWorld("a", "b", "c")
    following = Following(world.flow, world.settings)

    async def everything() -> None:
        world.flow.run()
        questions = [
            one for name in ("p", "q", "gone") for one in about("Placement", name, "ns", cluster="b", node="b")
        ]
        await agree(following, *questions, Question("PlacementDecision", "ns", "p-decision-1"))

    world.place(numberOfClusters=2)
    world.place("q", tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 30}])
    await everything()
    world.taint("b", "k")
    world.say("c", "False")
    await everything()
    world.flow.advance(60)
    await everything()
    world.untaint("b", "k")
    world.cluster("d")
    world.place(numberOfClusters=1)
    await everything()


@table("seed", range(8))
async def test_whatever_happens_in_whatever_order(seed: int) -> None:
    """Nodes and pods are added and removed, fail and are tainted in random order. Both ways always agree."""
    drawn = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    settings = lifted(partitions=3)
    world = NodeWorld("n1", "n2", "n3", "n4", seed=seed, settings=settings)
    following = Following(world.flow, settings)
    names = ["n1", "n2", "n3", "n4"]
    acts: dict[str, Any] = {
        "deploy": lambda: world.declare(
            "Deployment", drawn.choice("ab"), {"replicas": drawn.randint(0, 4), "template": TEMPLATE}
        ),
        "undeploy": lambda: world.delete("Deployment", drawn.choice("ab")),
        "report": lambda: world.report(drawn.choice(names), status=drawn.choice(["True", "False"])),
        "taint": lambda: world.taint(drawn.choice(names), "k", drawn.choice(["NoSchedule", "NoExecute"])),
        "untaint": lambda: world.untaint(drawn.choice(names), "k", drawn.choice(["NoSchedule", "NoExecute"])),
        "join": lambda: world.node(drawn.choice(names)),
        "pass": lambda: world.flow.advance(drawn.choice([1, 200, 400])),
    }
    for _ in range(30):
        acts[drawn.choice(list(acts))]()
        if drawn.random() < 0.5:
            world.flow.run()
            some = drawn.sample(sorted(world.pods()), min(2, len(world.pods())))
            await agree(following, *(one for name in some for one in about("Pod", name, node=drawn.choice(names))))
            assert consistent(following)


async def test_a_question_changes_nothing() -> None:
    settings = lifted(partitions=3)
    world = NodeWorld("n1", settings=settings)
    world.declare("Deployment", "web", {"replicas": 2, "template": {**TEMPLATE, "spec": pod_spec("100m")}})
    world.run()
    following = Following(world.flow, settings)
    following.follow()
    asked = [Question("Pod", "default", name, every=True) for name in world.pods()]
    first = [await following.explained(one) for one in asked]
    with pytest.raises(NotFoundError):
        await following.explained(Question("Pod", "default", asked[0].name, node="n9"))
    assert [await following.explained(one) for one in reversed(asked)] == first[::-1]


def consistent(following: Following) -> bool:
    """Whether every index has the last record of each key and nothing else."""
    known = following.tables
    last = {record for records in known._last.values() for record in records.values()}
    chains = {record for correlation in known.correlations() for record in known.chain(correlation)}
    made = {
        (record.owner, record.key)
        for record in known._last[PLACEMENTS.short].values()
        if record.owner not in {"", record.key}
    }
    indexed = {(owner, key) for owner, keys in known._made.items() for key in keys}
    return last == chains == set(known._by_id.values()) and made == indexed


async def test_older_records_are_read_at_their_places_and_nowhere_else() -> None:
    settings = lifted(partitions=3)
    world = NodeWorld("n1", "n2", settings=settings)
    world.declare("Deployment", "web", {"replicas": 1, "template": TEMPLATE})
    for number in range(50):
        for name in ("n1", "n2"):
            world.report(name, status="True")
            world.report(name, "Noise", "False" if number % 2 else "True")
        world.run()
        world.flow.advance(10)
    world.report(next(iter(world.where())), status="False")
    world.run()
    world.flow.advance(400)
    following = Following(world.flow, settings)
    (moved,) = world.pods().values()
    assert moved.replaces
    await agree(following, *about("Pod", moved.workload.name))
    changes = sum(1 for _ in world.flow.records(CONDITIONS))
    assert changes > 100
    assert 0 < following.older.read < changes / 2


def test_a_record_that_is_no_event_leaves_its_key_without_one() -> None:
    settings = lifted(partitions=3)
    world = NodeWorld("n1", settings=settings)
    world.declare("Pod", "p", pod_spec())
    world.run()
    following = Following(world.flow, settings)
    following.follow()
    assert following.read().last(PLACEMENTS, "Pod/default/p") is not None
    (decision,) = world.flow.records(PLACEMENTS)
    world.flow.produce_raw(PLACEMENTS, decision.partition, key=decision.key, value=b"{}", headers=())
    following.follow()
    assert following.read().last(PLACEMENTS, "Pod/default/p") is None
    assert following.tables.find(decision.meta.id) is None


def test_deletions_are_kept_as_causes_and_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_tables, "_TOMBSTONES", 3)
    settings = lifted(partitions=3)
    world = NodeWorld("n1", settings=settings)
    following = Following(world.flow, settings)
    for number in range(5):
        world.declare("Pod", f"p{number}", pod_spec())
        world.run()
        world.delete("Pod", f"p{number}")
        world.run()
    world.declare("Pod", "p4", pod_spec(), uid="another")
    world.run()
    following.follow()
    resources = {
        number: record
        for number in range(5)
        if (record := following.read().last(RESOURCES, f"Pod/default/p{number}")) is not None
    }
    assert 0 not in resources
    assert resources[4].event is not None, "what was made again is no deletion any more"
    assert sum(record.gone for topic in (RESOURCES, PLACEMENTS) for record in _all(following, topic.short)) <= 3


def _all(following: Following, short: str) -> list[Any]:
    return list(following.tables._last[short].values())


class Decoded:
    """The values that are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[str] = []
        attributes = codec.attributes

        def noting(topic: Topic, record: Any) -> Any:
            self.keys.append((record.key or b"").decode())
            return attributes(topic, record)

        monkeypatch.setattr(codec, "attributes", noting)


async def test_no_record_is_decoded_before_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = lifted(partitions=3)
    world = NodeWorld("n1", settings=settings)
    following = Following(world.flow, settings)
    decoded = Decoded(monkeypatch)
    for number in range(3):
        world.declare("Pod", "p", {**pod_spec(), "schedulerName": f"s{number}"})
        world.run()
        following.follow()
    assert decoded.keys == []
    assert following.tables.sizes()[RESOURCES.short] == 2
    (declared,) = {record.meta.correlation for record in world.flow.records(RESOURCES) if "Node" in record.name}
    assert following.tables.has_chain(declared)
    await following.explained(Question("Pod", "default", "p"))
    assert decoded.keys.count("Pod/default/p") == 2, "the last record of the pod, and its placement"
    assert following.tables.sizes()[RESOURCES.short] == 2
    assert following.tables.has_chain(declared)


async def test_so_many_records_are_kept_unread_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = lifted(partitions=3)
    world = NodeWorld("n1", settings=settings)
    following = Following(world.flow, settings)
    decoded = Decoded(monkeypatch)
    for number in range(20):
        world.declare("Pod", f"p{number}", pod_spec())
    world.run()
    monkeypatch.setattr(query_tables, "_MOST_UNREAD", 4)
    following.follow()
    assert sum(1 for _ in world.flow.records(RESOURCES)) > 20
    assert len(following.tables._unread) == 4
    assert "Pod/default/p0" in decoded.keys
    monkeypatch.setattr(query_tables, "_MOST_UNREAD_BYTES", 0)
    world.declare("Pod", "large", pod_spec())
    world.run()
    following.follow()
    assert not any(unread.size for unread in following.tables._unread.values())
    await agree(following, *(Question("Pod", "default", name) for name in world.pods()))
    assert consistent(following)
