"""Golden histories are reproduced byte for byte with the present code."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.seeded.bugs import BUGS
from tests.scenario.replay.golden import FOLDER, SEEDS
from tests.support.tables import table

from moorage.insight.copy.run import services
from moorage.insight.replay.comparison import Replayed, replay
from moorage.insight.replay.recording import Recording
from moorage.runtime.process.logs import silenced
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.eviction.service import Eviction

FILES = sorted(FOLDER.glob("*.jsonl.gz"))
CHANGED = (
    "latest-deadline",
    "last-toleration",
    "zero-is-for-ever",
    "budget-ignored",
    "pause-ignored",
    "no-timer",
    "half-a-token",
    "same-condition-generation",
    "silence-unheard",
    "no-hold",
)
"""Bugs that are planted elsewhere. Here each of them stands for a changed decision."""


def test_there_is_a_file_for_each_seed() -> None:
    assert [file.name for file in FILES] == sorted(f"seed-{seed}.jsonl.gz" for seed in SEEDS)


@table("file", FILES, ids=lambda file: file.name)
def test_a_golden_history_comes_out_byte_for_byte(file: Path) -> None:
    found = again(file)
    assert [one.difference for one in found.tallies if one.difference] == [], (
        "a decision has changed; if that is meant, make the histories anew: python -m tests.scenario.replay.golden"
    )
    assert (found.missing, found.uncompared) == (0, {})
    assert found.equal > 20


def test_every_service_is_held_still() -> None:
    found = {one.service for file in FILES for one in again(file).tallies if one.equal}
    assert found == {one.name for one in services(Settings())}


@table("bug", CHANGED)
def test_a_changed_decision_shows(bug: str) -> None:
    name = next(name for name in BUGS if name.split()[-1] == bug)
    with BUGS[name].planted():
        assert any(again(file).differing for file in FILES), BUGS[name].what


def test_an_engine_that_asks_for_something_else_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later steps of the same session depend on another state, so they are not compared."""
    monkeypatch.setattr(Eviction, "needs", lambda _self, _state, _now: None)
    found = again(FOLDER / "seed-39.jsonl.gz")
    (eviction,) = [one for one in found.tallies if one.difference is not None]
    assert eviction.service == "eviction"
    assert eviction.difference is not None
    assert eviction.difference.why.startswith("the engine goes another way: it ")
    assert eviction.difference.recorded is not None
    assert eviction.equal + eviction.differing + eviction.missing == eviction.transactions
    assert all(reason.startswith("what went before came out otherwise: ") for reason in eviction.reasons)


def again(file: Path) -> Replayed:
    with silenced():
        return replay(Recording.load(file))
