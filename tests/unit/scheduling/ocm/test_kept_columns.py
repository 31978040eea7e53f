"""What is kept from the first cluster on, so that the first placement need not visit all clusters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.column import ScoreColumn
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.taint_table import TaintTable
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.filters.taint_toleration import TaintColumn
from moorage.decide.scheduling.ocm.scheduler import PlacementScheduler
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage_schemas.resources.managed import PlacementSpec
from moorage_schemas.taint import Taint, Toleration

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EFFECTS = ["NoSelect", "NoSelectIfNew", "PreferNoSelect"]

times = st.sampled_from([None, NOW, NOW + timedelta(hours=1), datetime(9999, 12, 31, tzinfo=UTC)])
one_taint = st.builds(
    Taint,
    key=st.sampled_from("kl"),
    value=st.sampled_from(["", "1"]),
    effect=st.sampled_from(EFFECTS),
    time_added=times,
)
seconds = st.sampled_from([None, -5, 0, 60, 3600, 2**42, 2**43, 2**62])
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", "k", "l"]),
    operator=st.sampled_from(["Exists", "Equal"]),
    value=st.sampled_from(["", "1"]),
    effect=st.sampled_from(["", *EFFECTS]),
    toleration_seconds=seconds,
)
tainted = st.lists(one_taint, max_size=3).map(tuple) | st.lists(one_taint, min_size=9, max_size=10).map(tuple)


@given(
    st.lists(tainted, min_size=17, max_size=24),
    st.lists(st.tuples(st.integers(0, 16), tainted | st.none()), max_size=6),
    st.lists(tolerations, max_size=3).map(tuple),
    st.booleans(),
)
def test_taints_are_judged_for_all_clusters_as_for_one(
    first: list[tuple[Taint, ...]],
    changes: list[tuple[int, tuple[Taint, ...] | None]],
    tolerated: tuple[Toleration, ...],
    as_upstream: bool,  # noqa: FBT001 - a drawn value
) -> None:
    fleet = ManagedFleet()
    for i, taints in enumerate(first):
        fleet.put(ManagedClusterFacts(f"c{i}", taints=taints))
    for i, changed in changes:
        if changed is None:
            fleet.remove(f"c{i}")
        else:
            fleet.put(ManagedClusterFacts(f"c{i}", taints=changed))
    column = TaintColumn(tolerated, as_upstream)
    blank = fleet.is_blank(column)
    found = fleet.column(column)
    assert not blank or (found == column.empty(fleet.capacity)).all()
    expected = column.empty(fleet.capacity)
    for row in np.flatnonzero(fleet.present).tolist():
        expected[:, row] = column.answer(fleet, row)
    assert found.tolist() == expected.tolist()
    had = {(t.key, t.value, t.effect) for name in fleet.names for t in fleet.at(fleet.row(name)).taints}
    assert len(fleet.taint_table) <= len(had)


def test_a_taint_that_no_cluster_has_is_forgotten_and_its_code_is_used_again() -> None:
    table = TaintTable(64)
    for number in range(1000):
        table.put(number % 3, (Taint(key=f"k{number}", effect="NoSelect"),))
    assert len(table) == 3
    assert len(table.kinds) <= 5
    table.put(0, ())
    table.put(1, tuple(Taint(key=f"k{number}", effect="NoSelect") for number in range(20)))
    assert (len(table), table.crowded, len(table.codes)) == (1, {1}, 1)


def made(count: int) -> tuple[ManagedFleet, PlacementScheduler]:
    fleet = ManagedFleet()
    scheduler = PlacementScheduler(fleet)
    for i in range(count):
        taints = (Taint(key=f"k{i % 3}", effect="NoSelect", time_added=NOW),)
        amounts: dict[str, str | int | float] = {"cpu": str(1 + i % 7)}
        fleet.put(ManagedClusterFacts(f"c{i:03}", taints=taints, allocatable=amounts, capacity=amounts))
        fleet.put_score(ScoreFacts(f"c{i:03}", "demo", {"g": i % 5}, NOW + timedelta(hours=1)))
    return fleet, scheduler


SPEC = PlacementSpec.model_validate(
    {
        "numberOfClusters": 10,
        "tolerations": [{"key": f"k{i}", "operator": "Exists", "tolerationSeconds": 60} for i in range(3)],
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}, "weight": 1},
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Balance"}, "weight": 2},
                {
                    "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": "g"}},
                    "weight": 1,
                },
            ],
        },
    }
)


def test_the_first_placement_visits_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, scheduler = made(300)
    visits: list[int | str] = []
    at, score = ManagedFleet.at, ManagedFleet.score

    def visited(self: ManagedFleet, row: int) -> ManagedClusterFacts:
        visits.append(row)
        return at(self, row)

    def asked(self: ManagedFleet, cluster: str, resource: str) -> ScoreFacts | None:
        visits.append(cluster)
        return score(self, cluster, resource)

    monkeypatch.setattr(ManagedFleet, "at", visited)
    monkeypatch.setattr(ManagedFleet, "score", asked)
    found = scheduler.schedule(terms_of(SPEC), usage=Usage(fleet), now=NOW)
    assert len(found.decisions) == 10
    # Only the selected clusters are looked at, for the end of the time for which their taints are tolerated.
    assert len(visits) <= 10


def test_a_score_has_a_column_while_a_cluster_has_it_and_not_too_many_have_one() -> None:
    fleet = ManagedFleet()
    fleet.put(ManagedClusterFacts("a"))
    fleet.put_score(ScoreFacts("a", "demo", {"g": 3}))
    fleet.put_score(ScoreFacts("b", "demo", {"g": 4, "h": 5}))
    fleet.put(ManagedClusterFacts("b"))
    names = [("demo", "g"), ("demo", "h")]
    for resource, name in names:
        column = ScoreColumn(resource, name)
        found = fleet.column(column)
        assert [found[:, fleet.row(one)].tolist() for one in "ab"] == [
            list(column.answer(fleet, fleet.row(one))) for one in "ab"
        ]
    assert len(fleet._columns) == 2
    fleet.remove_score("b", "demo")
    assert len(fleet._columns) == 1
    for number in range(100):
        fleet.put_score(ScoreFacts("a", "demo", {f"s{number}": 1}))
        assert len(fleet._columns) <= 2
    fleet.put_score(ScoreFacts("a", "demo", {f"s{number}": 1 for number in range(100)}))
    assert len(fleet._columns) <= 16


def test_choosing_among_the_best_so_far_is_choosing_among_all() -> None:
    fleet, scheduler = made(200)
    usage, terms = Usage(fleet), terms_of(SPEC)
    for number in range(60):
        if number % 20 == 19:
            fleet.put(ManagedClusterFacts(f"new{number}"))
        found = scheduler.schedule(terms, usage=usage, now=NOW)
        totals = dict(zip(fleet.names_at(found.rows), found.totals.tolist(), strict=True))
        assert list(found.decisions) == sorted(totals, key=lambda name: (-totals[name], name))[:10]
        usage.add(found.decisions)
        if number % 7 == 6:
            usage.remove(found.decisions)


balanced = st.tuples(
    st.sampled_from(["add", "remove", "other", "cluster"]),
    st.integers(1, 40),
    st.sampled_from([1, 1, 3, 30, 79, 80, None]),
)


@given(st.lists(balanced, min_size=3, max_size=25), st.sampled_from([-1, 1, 3]))
def test_a_shortlist_gives_the_decisions_and_reasons_of_a_new_scheduler(
    steps: list[tuple[str, int, int | None]], weight: int
) -> None:
    fleet, scheduler = made(80)
    usage = Usage(fleet)
    spec = SPEC.model_dump(by_alias=True, exclude_none=True)
    del spec["tolerations"][0]["tolerationSeconds"], spec["tolerations"][1]["tolerationSeconds"]
    spec["prioritizerPolicy"]["configurations"][1]["weight"] = weight
    had: list[tuple[str, ...]] = []
    told = []
    for does, which, number in steps:
        spec["numberOfClusters"] = number
        terms = terms_of(PlacementSpec.model_validate(spec))
        found = scheduler.schedule(terms, usage=usage, now=NOW)
        fresh = PlacementScheduler(fleet).schedule(terms, usage=usage, now=NOW)
        totals = dict(zip(fleet.names_at(fresh.rows), fresh.totals.tolist(), strict=True))
        assert found.decisions == fresh.decisions
        assert list(found.decisions) == sorted(totals, key=lambda name: (-totals[name], name))[:number]
        told.append((found, fresh.totals.tolist(), fresh.prioritizers))
        if does == "cluster":
            # Reasons must be requested before the fleet changes, and may be requested after decisions are counted.
            for one, expected, parts in told:
                assert one.totals.tolist() == expected
                assert [p.values.tolist() for p in one.prioritizers] == [p.values.tolist() for p in parts]
            told.clear()
            fleet.put(ManagedClusterFacts(f"c{which:03}", taints=(Taint(key="k1", effect="NoSelect"),) * (which % 2)))
        elif does == "remove" and had:
            usage.remove(had.pop(which % len(had)))
        else:
            had.append(found.decisions[:which] if does == "add" else (f"c{2 * which - 1:03}",))
            usage.add(had[-1])
    for one, expected, _ in told:
        assert one.totals.tolist() == expected


def test_a_taint_that_is_not_tolerated_ends_what_was_true_of_all_clusters() -> None:
    fleet, scheduler = made(40)
    spec = PlacementSpec.model_validate(
        {"numberOfClusters": 40, "tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(3)]}
    )
    terms = terms_of(spec)
    column = TaintColumn(terms.tolerations, as_upstream=False)
    assert len(scheduler.schedule(terms, usage=Usage(fleet), now=NOW).decisions) == 40
    assert fleet.is_blank(column)
    assert not fleet.put(ManagedClusterFacts("c001", taints=(Taint(key="k2", effect="NoSelect"),))).columns & {column}
    assert fleet.is_blank(column)
    assert column in fleet.put(ManagedClusterFacts("c001", taints=(Taint(key="other", effect="NoSelect"),))).columns
    found = scheduler.schedule(terms, usage=Usage(fleet), now=NOW)
    assert len(found.decisions) == 39
    assert "c001" not in found.decisions
    assert [(one.filter, one.count) for one in found.ruled_out()] == [("TaintToleration", 1)]
