"""The cost of the rooms of the suite, and their ceilings."""

from __future__ import annotations

from typing import Any

from tests.support.costs import Meter, Report, room_of

CEILINGS: dict[str, dict[str, float]] = {
    "unit": {"wall": 100, "cpu": 50},
    "(outside tests)": {"wall": 1000, "cpu": 1000},
}


def result(wall: float, cpu: float, loop: tuple[float, float] = (0.015, 0.01)) -> dict[str, Any]:
    rooms = {"unit": [2, wall, cpu], "(outside tests)": [0, 1.0, 1.0]}
    return {"rooms": rooms, "slowest": {"unit": [(wall, "tests/unit/test_x.py::test_x")]}, "loop": list(loop)}


def report(*results: dict[str, Any]) -> Report:
    made = Report()
    for one in results:
        made.add(one)
    return made


def test_a_room_below_its_ceilings_is_no_excess() -> None:
    assert report(result(1.0, 0.4)).excesses(CEILINGS) == []


def test_a_slow_test_exceeds_the_ceiling_and_is_named() -> None:
    (waits,) = report(result(2.0, 0.4)).excesses(CEILINGS)
    assert "unit: 133 loops (wall), ceiling 100" in waits
    assert "test_x (2.0 s)" in waits
    (computes,) = report(result(1.0, 0.6)).excesses(CEILINGS)
    assert "unit: 60 loops (cpu), ceiling 50" in computes


def test_a_slow_machine_exceeds_no_ceiling() -> None:
    assert report(result(10.0, 4.0, loop=(0.15, 0.1))).excesses(CEILINGS) == []


def test_on_a_busy_machine_only_processor_time_counts() -> None:
    busy = report(result(10.0, 0.4, loop=(0.05, 0.01)))
    assert busy.is_busy
    assert busy.excesses(CEILINGS) == []
    assert "the machine is busy" in busy.table()[-1]


def test_processes_are_added_each_with_its_own_loop() -> None:
    both = report(result(1.0, 0.2), result(2.0, 0.4, loop=(0.03, 0.02)))
    assert both.loops["unit"].tests == 4
    assert round(both.loops["unit"].cpu) == 40


def test_a_room_without_a_ceiling_is_reported() -> None:
    (found,) = report(result(1.0, 0.1)).excesses({"(outside tests)": CEILINGS["(outside tests)"]})
    assert found.startswith("unit: no ceiling")


def test_a_meter_measures_each_room() -> None:
    meter = Meter()
    meter.calibrate()
    meter.note("tests/chaos/seeded/test_x.py::test_a", 1.0, 0.5)
    meter.note("tests/unit/a/test_x.py::test_b[1]", 0.1, 0.1)
    measured = meter.result()
    assert measured["rooms"]["chaos/seeded"] == [1, 1.0, 0.5]
    assert measured["slowest"]["unit"] == [(0.1, "tests/unit/a/test_x.py::test_b[1]")]
    assert min(measured["loop"]) > 0
    assert room_of("tests/kafka/test_x.py::test_c") == "kafka"
