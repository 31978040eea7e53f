"""The judge of the growth benchmark tells what grows from what is flat."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.growth_samples import topic_sizes
from bench.growth_times import Pace, set_constants
from bench.growth_verdict import judge

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage import history
from moorage.apiserver.storage.shown_objects import unkept
from moorage.decide.conditions import heartbeats
from moorage_schemas.topics import TOPICS, Cleanup

SECONDS = 1200.0
MIB = 2.0**20


def series(value: Callable[[float], float], *, noise: float = 0.0) -> list[tuple[float, float]]:
    chance = random.Random(1)  # noqa: S311 - a seeded series
    return [(at * 10.0, value(at * 10.0) + chance.uniform(-noise, noise)) for at in range(121)]


def sawtooth(at: float) -> float:
    """100 MiB, of which half is dropped every 80 seconds."""
    return (100 + 50 * (at % 80) / 80) * MIB


FLAT: dict[str, Callable[[float], float]] = {
    "level": lambda _: 100 * MIB,
    "sawtooth": sawtooth,
    "fills first": lambda at: min(at, 300) * MIB,
    "falls": lambda at: (2000 - at) * MIB,
    "creeps": lambda at: (100 + at / 300) * MIB,
    "one peak": lambda at: (500 if at == 700 else 100) * MIB,
}

GROWS: dict[str, Callable[[float], float]] = {
    "line": lambda at: (100 + at / 50) * MIB,
    "sawtooth that climbs": lambda at: sawtooth(at) + at / 40 * MIB,
    "step": lambda at: (150 if at > 700 else 100) * MIB,
    "slows down": lambda at: 30 * at**0.5 * MIB,
}


@pytest.mark.parametrize("name", [*FLAT, *GROWS])
def test_what_grows_is_told_from_what_is_flat(name: str) -> None:
    found = judge("uss/timer", series((FLAT | GROWS)[name], noise=2 * MIB), SECONDS)
    assert found is not None
    assert found.grows == (name in GROWS), found


def test_a_rise_below_the_floor_does_not_count() -> None:
    found = judge("bytes/zones", series(lambda at: at * 100), SECONDS)
    assert found is not None
    assert (round(found.rise), found.grows) == (90_000, False)


def test_what_is_left_of_a_heap_is_judged_by_the_lowest_values() -> None:
    collected = series(lambda at: (100 if at % 100 == 0 else 200 + at / 5) * MIB)
    left = judge("heap/broker", collected, SECONDS)
    assert left is not None
    assert (left.level, left.grows) == (100 * MIB, False)


def test_series_that_say_nothing_are_not_judged() -> None:
    assert judge("log_bytes/timer", series(lambda at: at), SECONDS) is None
    assert judge("uss/timer", [(400.0, 1.0), (500.0, 2.0)], SECONDS) is None


def test_everything_that_is_kept_for_a_time_comes_round_in_a_quarter_of_the_run() -> None:
    pace = Pace(SECONDS)
    for topic in TOPICS:
        times = pace.topic(topic)
        kept = [int(value) / 1000 for name, value in times.items() if name.endswith(".ms")]
        assert max(kept) <= SECONDS / 4, topic.short
        dropped = "retention.ms" if topic.cleanup is Cleanup.DELETE else "delete.retention.ms"
        assert set(times) < set(topic.config())
        assert dropped in times


def test_constants_are_changed_where_they_are_defaults_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT", history.KEPT)
    monkeypatch.setattr(history.History.__init__, "__defaults__", history.History.__init__.__defaults__)
    monkeypatch.setattr(heartbeats, "LEAST_OFTEN", heartbeats.LEAST_OFTEN)
    set_constants({"moorage.apiserver.storage.history:KEPT": 3, "moorage.decide.conditions.heartbeats:LEAST_OFTEN": 50})
    kept = history.History()
    for _ in range(5):
        kept.add(ObjectId("Node", "", "n1"), None, None, unkept(1, {"metadata": {}}))
    assert len(kept.since(2)) == 3
    assert heartbeats.LEAST_OFTEN.total_seconds() == 50
    with pytest.raises(AttributeError):
        set_constants({"moorage.apiserver.storage.history:NO_SUCH": 1})


def test_the_constants_of_a_run_exist() -> None:
    for place in Pace(SECONDS).constants():
        module, _, name = place.partition(":")
        assert hasattr(__import__(module, fromlist=[name]), name), place


def test_bytes_on_disk_are_those_of_segments(tmp_path: Path) -> None:
    for name, size in (("growth.zones.v1-0", 10), ("growth.zones.v1-1", 5), ("__consumer_offsets-3", 7)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "0.log").write_bytes(b"x" * size)
        (folder / "0.index").write_bytes(b"x" * 1000)
    (tmp_path / "meta.properties").write_text("x")
    assert topic_sizes(tmp_path, "growth.") == ({"zones": 15, "__consumer_offsets": 7}, 3)
