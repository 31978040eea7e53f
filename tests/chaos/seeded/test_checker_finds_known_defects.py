"""Runs of services that had known defects, kept as they were: the checker finds each of them, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.chaos.seeded.checker import check
from tests.chaos.seeded.saved import dumps, load, loads
from tests.support.tables import table

HISTORIES = Path(__file__).parent / "histories"

FOUND = {
    "eviction_away": {"nobody_evicted_needlessly"},
    "taint_manager_away": {"nobody_evicted_after_relief", "nobody_evicted_from_a_node_reported_ready"},
    "governor_away": {"lost_zones_get_nothing"},
    "damping": {"conditions_have_held"},
    "backlog": {"nobody_evicted_after_relief"},
    "lost_answer": {"evictions_are_what_is_due"},
    "ruled_out": {"available_clusters_are_selected"},
    "by_hand": {
        "nobody_evicted_after_relief",
        "nobody_evicted_from_a_node_reported_ready",
        "taints_are_what_is_asked_for",
    },
}
"""By the history's file: what was broken in it."""


@table("name", FOUND)
def test_what_was_wrong_is_found(name: str) -> None:
    assert {violation.invariant for violation in check(load(HISTORIES / f"{name}.json"))} == FOUND[name]


def test_every_history_is_looked_at() -> None:
    assert {path.stem for path in HISTORIES.glob("*.json")} == set(FOUND)


def test_every_pod_that_was_evicted_from_a_node_without_taint_is_named() -> None:
    found = check(load(HISTORIES / "eviction_away.json"))
    assert {violation.where.split()[1] for violation in found} == {f"Pod/default/p{n}|Node/n{n}|1" for n in range(4)}


@table("name", FOUND)
def test_a_history_is_the_same_when_it_is_written_and_read(name: str) -> None:
    history = load(HISTORIES / f"{name}.json")
    assert loads(dumps(history)) == history


def test_without_the_wrong_record_nothing_is_found() -> None:
    history = load(HISTORIES / "backlog.json")
    sound = [entry for entry in history.entries if entry.topic != "evictions"]
    assert check(replace(history, entries=sound)) == []
