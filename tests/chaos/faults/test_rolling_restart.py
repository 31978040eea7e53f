"""Every process is restarted under load, one after the other, and what such a drill measures."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.faults import versions
from tests.chaos.faults.upgrade import Delay, Drill, Upgrade, upgrade, without_standby
from tests.chaos.faults.versions import VersionMissingError
from tests.chaos.seeded.history import Entry, History
from tests.support.brokers import Broker

from moorage_schemas.base import Model
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]

POD = WorkloadRef(kind="Pod", namespace="default", name="p1")


async def test_every_process_is_restarted_under_load(broker: Broker, tmp_path: Path) -> None:
    this = versions.this()
    said: list[str] = []
    done = await upgrade(broker.bootstrap, this, this, tmp_path, form="alone", tell=said.append)
    assert not done.violations, "\n".join([*done.violations, *said])
    processes = len(Drill("alone", broker.bootstrap, "", tmp_path, this).members.all)
    assert done.restarts == processes + 2
    assert len(done.delays["taint"]) > done.restarts, "a decision is measured in every restart"


def entry(topic: str, key: str, appended: float, event: Model) -> Entry:
    return Entry(topic, 0, int(appended), key, event.model_dump_json().encode(), {}, appended, appended, int(appended))


def decided(state: EvictionState, *held_by: str) -> EvictionDecided:
    return EvictionDecided(
        workload=POD,
        owner=POD,
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        generation=1,
        revision=1,
        state=state,
        deadline=datetime.fromtimestamp(102, UTC),
        held_by=held_by,
        decided_time=datetime.fromtimestamp(100, UTC),
    )


def test_delays_are_those_that_nothing_held() -> None:
    declared = ResourceDeclared(object={"kind": "Pod"}, version=1)
    entries = [
        entry("resources", "Pod/default/p1", 90, declared),
        entry("placements", "Pod/default/p1", 93, declared),
        entry("placements", "Pod/default/p1", 99, declared),
        entry("evictions", "Pod/default/late|Node/n1|1", 100, decided(EvictionState.SCHEDULED)),
        entry("evictions", "Pod/default/held|Node/n1|1", 101, decided(EvictionState.SCHEDULED)),
        entry("evictions", "Pod/default/held|Node/n1|1", 103, decided(EvictionState.HELD, "EvictionPause/all")),
        entry("evictions", "Pod/default/late|Node/n1|1", 106, decided(EvictionState.REQUESTED)),
        entry("evictions", "Pod/default/held|Node/n1|1", 120, decided(EvictionState.REQUESTED)),
    ]
    result = Upgrade("chain", 1, steps=[("a", 80, 91), ("b", 105, 107)])
    result.judge(History(entries, (), exact=False, began=80, ended=130, quiet=False, partitions=1), ["taint n1"])
    assert result.delays == {"eviction": [Delay(102, 4)], "placement": [Delay(90, 3)]}
    assert result.longest("eviction") == result.longest("eviction", 105, 107) == 4
    assert result.longest("eviction", 80, 91) == 0
    assert any(one.startswith("never accepted: taint n1") for one in result.violations)
    assert any(one.startswith("not at rest") for one in result.violations)


@pytest.mark.parametrize(
    ("standbys", "cold"),
    [({"0": "Warm", "1": "Warm"}, []), ({"0": "Warm", "1": "Reading"}, ["timer 1"]), ({}, ["timer 0", "timer 1"])],
)
def test_a_process_is_replaced_when_every_partition_has_a_warm_standby(
    standbys: dict[str, str], cold: list[str]
) -> None:
    owner: dict[str, Any] = {"timer": {"partitions": {"0": {}, "1": {}}, "standbys": {}}}
    assert without_standby([owner, {"timer": {"partitions": {}, "standbys": standbys}, "query": {}}]) == cold


def test_a_commit_that_git_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(VersionMissingError, match="git archive 0000000000"):
        versions.earlier("0" * 40, tmp_path / "earlier")
