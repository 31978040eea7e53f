"""Old and new processes side by side: every process is replaced under load, and back. `ops/upgrade-drill` runs more."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.chaos.faults import versions
from tests.chaos.faults.upgrade import FORMS, Delay, Drill, Upgrade, upgrade
from tests.chaos.faults.versions import VersionMissingError
from tests.chaos.seeded.history import Entry, History
from tests.support.brokers import Broker

from moorage_schemas.base import Model
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]

POD = WorkloadRef(kind="Pod", namespace="default", name="p1")


async def test_every_process_is_replaced_under_load_and_back(broker: Broker, tmp_path: Path) -> None:
    try:
        old = await asyncio.to_thread(versions.earlier, versions.before(), tmp_path / "earlier")
    except VersionMissingError as error:
        pytest.skip(f"the version before cannot be had: {error}")
    logs = tmp_path / "logs"
    logs.mkdir()
    said: list[str] = []
    done = await upgrade(broker.bootstrap, old, versions.this(), logs, form=FORMS[0], tell=said.append)
    assert not done.violations, "\n".join([*done.violations, *said])
    processes = len(Drill(FORMS[0], broker.bootstrap, "", logs, old).members.all)
    assert done.restarts == 2 * (processes + 2), "every process forwards and back, and two kills each time"
    assert len(done.delays["taint"]) > done.restarts, "a decision is measured in every replacement"
    assert min(map(len, done.delays.values())) > 5, "too little happened to show anything"


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


def test_a_commit_that_git_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(VersionMissingError, match="git archive 0000000000"):
        versions.earlier("0" * 40, tmp_path / "earlier")
