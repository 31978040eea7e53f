from __future__ import annotations

from tests.support.tables import table

from moorage.apiserver.rules.validation.core import validate_taints
from moorage.decide.taints.dialects.kubernetes import CONDITION_TAINTS, KUBERNETES, SYSTEM_KEYS, condition_taints


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
    found = condition_taints({condition: status})
    assert [f"{t.key.removeprefix('node.kubernetes.io/')}:{t.effect}" for t in found] == expected


def test_unschedulable_is_a_taint_beside_the_others() -> None:
    found = condition_taints({"Ready": "False"}, unschedulable=True)
    assert [(t.key, t.effect) for t in found][-1] == ("node.kubernetes.io/unschedulable", "NoSchedule")
    assert validate_taints(found) == []
    assert {t.key for t in found} <= SYSTEM_KEYS


def test_effects_that_evict_also_filter_and_none_does_all() -> None:
    assert KUBERNETES.evicting < KUBERNETES.filtering
    assert KUBERNETES.filtering | KUBERNETES.scoring == set(KUBERNETES.effects)
    assert not KUBERNETES.filtering & KUBERNETES.scoring


def test_opposites_are_mutual() -> None:
    by_key = {row.key: row for row in CONDITION_TAINTS}
    pairs = [row for row in CONDITION_TAINTS if row.opposite]
    assert len(pairs) == 2
    assert all(by_key[row.opposite].opposite == row.key for row in pairs)
