"""Runs of the simulation come out again byte for byte; tests/chaos/seeded/test_seeds.py says so of ordinary seeds."""

from __future__ import annotations

import pytest
from tests.chaos.seeded.kafka.inputs import tolerate
from tests.chaos.seeded.kafka.world import World
from tests.chaos.seeded.replay import problems, recorded, replayed
from tests.chaos.seeded.stories import Play, draw
from tests.scenario.replay.golden import made

from moorage.insight.replay.comparison import replay
from moorage.insight.replay.recording import Recording
from moorage.runtime.engine import batch, journal
from moorage.runtime.engine.batch import BatchProcessor
from moorage.runtime.process.logs import silenced
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import eviction, taint_manager
from moorage_schemas.topics import JOURNAL


@pytest.mark.parametrize("seed", [5, 7])
def test_a_long_seed_comes_out_again(seed: int) -> None:
    play = Play(draw(seed, long=True))
    world = play.world()
    world.play(play)
    found = replayed(world.cluster)
    assert problems(found) == []
    assert found.equal > 30
    assert found.missing < found.equal / 10, "only what a process that is killed had not written yet is missing"


def test_steps_that_ride_with_no_record_come_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_HEAVY", 100)
    monkeypatch.setattr(journal, "_HEADER_BYTES", 100)
    monkeypatch.setattr(journal, "_PART_BYTES", 300)
    recording = made(17)
    assert sum(record.topic == JOURNAL.short for record in recording.records()) > 30
    with silenced():
        found = replay(recording)
    assert problems(found) == []
    assert (found.missing, found.uncompared) == (0, {})


def test_small_slices_and_portions_come_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slow slice the next one is smaller, and a decision with many events leaves records for the next one."""
    sizes = iter(range(10**9))
    live = BatchProcessor._measure

    def slow(self: BatchProcessor[object], _seconds: float) -> None:
        live(self, 0.02 if next(sizes) % 3 else 0.0)

    with monkeypatch.context() as patched:
        patched.setattr(BatchProcessor, "_measure", slow)
        patched.setattr(batch, "DECISION_EVENTS", 1)
        recording = made(17)
    monkeypatch.setattr(batch, "DECISION_EVENTS", 1)
    assert any('"z' in record.header(journal.STEPS_HEADER).decode() for record in recording.records())
    with silenced():
        found = replay(recording)
    assert problems(found) == []
    assert found.equal > 20


async def poisoned(world: World) -> None:
    people = world.people
    for number, name in enumerate(("n1", "poison", "n2")):
        people.node(name, zone="a")
        people.pod(f"p{number}", [tolerate("maint", 2)], nodeName=name)
    await world.settle()
    for name in ("n1", "poison", "n2"):
        await people.taint("Node", name, "maint")
    await world.settle(quiet=5)


def test_records_on_which_a_service_fails_come_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of a failed batch are tried one by one after a restore. One that fails again goes to dead-letters."""
    service = taint_manager.service(Settings())
    process = type(service).process

    def failing(self: Service[object], state: object, given: object, now: object, *, fresh: bool = False) -> object:
        if any("poison" in record.key and b'"maint"' in _value(record.event) for record in given):  # type: ignore[attr-defined]  # inputs
            raise ValueError("poison")
        return process(self, state, given, now, fresh=fresh)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(type(service), "process", failing)
    world = World(3, settings={"partitions": 1})
    world.play(poisoned)
    recording = recorded(world.cluster)
    letters = [record for record in recording.records() if record.topic == "dead-letters"]
    assert len(letters) == 1
    with silenced():
        found = replay(recording)
    assert problems(found) == []
    assert (found.missing, found.uncompared) == (0, {})
    monkeypatch.undo()
    with silenced():
        assert replay(recording).differing, "the service no longer fails"
    monkeypatch.setattr(type(service), "process", _always_fails)
    with silenced():
        found = replay(recording, services=["taint-manager"])
    (one,) = found.tallies
    assert one.difference is not None
    # Where the recorded service failed on one record alone, the engine goes another way before it fails.
    assert "always" in one.difference.why or "goes another way" in one.difference.why
    assert one.equal < one.transactions


def _always_fails(*_: object, **__: object) -> None:
    raise ValueError("always")


def test_one_that_fails_at_the_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = made(17)
    monkeypatch.setattr(type(eviction.service(Settings())), "wake", _always_fails)
    with silenced():
        (one,) = replay(recording, services=["eviction"]).tallies
    assert one.differing == one.sessions
    assert one.equal + one.differing + one.missing == one.transactions


def _value(event: object) -> bytes:
    return b"" if event is None else event.model_dump_json().encode()  # type: ignore[attr-defined]  # a model


def test_a_run_without_a_beginning_is_missing_and_not_different() -> None:
    whole = made(17)
    late = Recording.of(record for record in whole.records() if record.timestamp > _middle(whole))
    with silenced():
        found = replay(late)
    assert found.differing == 0
    assert found.missing > 10
    assert all(one.reasons for one in found.tallies if one.missing)


def _middle(recording: Recording) -> int:
    times = sorted(record.timestamp for record in recording.records())
    return times[len(times) // 2]
