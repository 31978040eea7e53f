"""A deployer that keeps to the rule of the contract runs what it should, in whatever order it reads the topics.

The topics are recorded from all services under random changes of a fleet, and read again by deployers that are killed,
lag behind in one topic or the other, and find topics compacted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from tests.support.deploying import NaiveDeployer, RecordedDeployer, decisions_of, event_of, recorded
from tests.support.histories import fleet_of_clusters, fleet_of_nodes
from tests.support.tables import table
from tests.support.worlds.flow import Record
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import WITNESS

from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.topics import BINDINGS, EVICTIONS
from moorage_sdk.decisions import Remove, must_leave


def justified(records: Sequence[Record], removal: Remove, written: int) -> bool:
    """Whether a removal follows from what was written by then: what was removed is not to run."""
    present = decisions_of(records[:written])
    wanted = present.wanted(removal.running.key)
    return wanted is None or (wanted.uid, wanted.generation) != (removal.running.uid, removal.running.generation)


@table("fleet", [fleet_of_nodes, fleet_of_clusters])
@table("seed", range(6))
def test_every_order_of_reading_ends_with_what_is_to_run(fleet: Callable[[int], list[Record]], seed: int) -> None:
    records = fleet(seed)
    requested = [event for event in map(event_of, records) if isinstance(event, EvictionDecided) and must_leave(event)]
    assert requested, "the history has evictions"
    final = decisions_of(records)
    wanted = {key: (one.uid, one.generation, one.revision) for key in final.keys if (one := final.wanted(key))}
    for turn in range(30):
        rng = random.Random(1000 * seed + turn)  # noqa: S311 - as above
        removed: list[Remove] = []

        def remove(removal: Remove, written: int, removed: list[Remove] = removed) -> None:
            assert justified(records, removal, written), removal
            removed.append(removal)

        deployer = RecordedDeployer(records, rng, remove)
        deployer.write(rng.randrange(len(records)))
        deployer.start()
        while not deployer.is_done:
            deployer.write(rng.randrange(1, 20))
            deployer.read(rng.randrange(30))
            if rng.random() < 0.15:
                deployer.start()
                present = decisions_of(records[: deployer._written])
                now_wanted = {key: one.uid for key in present.keys if (one := present.wanted(key))}
                now_running = {key: one.uid for key, one in deployer.running.items()}
                assert now_running == now_wanted, "right after a start nothing is missing, and nothing is left"
        deployer.read_all()
        assert {key: (one.uid, one.generation, one.revision) for key, one in deployer.running.items()} == wanted


def history_with_a_namesake(*, elsewhere: bool) -> list[Record]:
    """A pod is evicted from n1, and one of the same name is created again: on the same node, or on another."""
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    world.taint("n1")
    world.run()
    world.delete("Pod", "web")
    world.run()
    if elsewhere:
        world.node("n2")
        world.delete_target("n1")
    else:
        world.untaint("n1")
    world.declare("Pod", "web", pod_spec())
    world.run()
    (bound,) = world.flow.table(BINDINGS).values()
    assert bound.target.name == ("n2" if elsewhere else "n1")
    return recorded(world.flow)


def test_acting_on_requested_alone_removes_a_newer_pod_on_replay() -> None:
    records = history_with_a_namesake(elsewhere=False)
    naive = NaiveDeployer()
    for topic in (BINDINGS, EVICTIONS):
        for record in (one for one in records if one.topic is topic):
            naive.read(record)
    assert naive.running == {}, "the old eviction has removed the new pod"


def test_acting_on_each_record_reports_healthy_for_nodes_long_gone() -> None:
    naive = NaiveDeployer()
    for record in history_with_a_namesake(elsewhere=True):
        naive.read(record)
    assert naive.reported == ["n1", "n2"], "n1 has been deleted"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_rule_keeps_the_newer_pod_and_only_touches_where_it_is(elsewhere: bool) -> None:  # noqa: FBT001 - a case
    records = history_with_a_namesake(elsewhere=elsewhere)
    for turn in range(50):
        removed: list[Remove] = []

        def remove(removal: Remove, _: int, removed: list[Remove] = removed) -> None:
            removed.append(removal)

        rng = random.Random(turn)  # noqa: S311 - as above
        deployer = RecordedDeployer(records, rng, remove)
        deployer.write(len(records))
        deployer.start()
        ((key, running),) = deployer.running.items()
        assert key.endswith("Node/n2" if elsewhere else "Node/n1")
        assert (running.uid, removed) == (decisions_of(records).binding(key).uid, [])  # type: ignore[union-attr]  # it is bound
