from __future__ import annotations

from tests.support.tables import table

from moorage.apiserver.rules.validation.core import validate_taints
from moorage.decide.taints.dialects.kubernetes import CONDITION_TAINTS, KUBERNETES, UNSCHEDULABLE_TAINT


@table(
    ("condition", "status", "expected"),
    [
        ("Ready", "True", []),
        ("Ready", "False", ["not-ready:NoSchedule", "not-ready:NoExecute"]),
        ("Ready", "Unknown", ["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ("MemoryPressure", "True", ["memory-pressure:NoSchedule"]),
        ("MemoryPressure", "Unknown", []),
        ("DiskPressure", "True", ["disk-pressure:NoSchedule"]),
        ("PIDPressure", "True", ["pid-pressure:NoSchedule"]),
        ("NetworkUnavailable", "True", ["network-unavailable:NoSchedule"]),
        ("SchedulerDown", "True", []),
    ],
)
def test_conditions_become_taints(condition: str, status: str, expected: list[str]) -> None:
    found = [
        taint
        for row in CONDITION_TAINTS
        if (row.condition, row.status) == (condition, status)
        for taint in row.taints()
    ]
    assert [f"{t.key.removeprefix('node.kubernetes.io/')}:{t.effect}" for t in found] == expected


def test_unschedulable_is_a_taint_beside_the_others() -> None:
    assert (UNSCHEDULABLE_TAINT.key, UNSCHEDULABLE_TAINT.effect) == ("node.kubernetes.io/unschedulable", "NoSchedule")
    not_ready = [
        taint for row in CONDITION_TAINTS if (row.condition, row.status) == ("Ready", "False") for taint in row.taints()
    ]
    assert validate_taints([*not_ready, UNSCHEDULABLE_TAINT]) == []


def test_effects_that_evict_also_filter_and_none_does_all() -> None:
    assert KUBERNETES.evicting < KUBERNETES.filtering
    assert KUBERNETES.filtering | KUBERNETES.scoring == set(KUBERNETES.effects)
    assert not KUBERNETES.filtering & KUBERNETES.scoring


def test_opposites_are_mutual() -> None:
    by_key = {row.key: row for row in CONDITION_TAINTS}
    pairs = [row for row in CONDITION_TAINTS if row.opposite]
    assert len(pairs) == 2
    assert all(by_key[row.opposite].opposite == row.key for row in pairs)
