from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table
from tests.support.taint_strategies import TAINT_LISTS, TAINTS, TOLERATION_LISTS, TOLERATIONS

from moorage.decide.kubernetes.quantities import canonical_int64
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.matching import first_match, normalize_reversed, prefer_count, tolerates, untolerated
from moorage_schemas.taint import Taint, Toleration

GPU = Taint(key="gpu", value="yes", effect="NoSchedule")


@table(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", operator="Equal", value="yes", effect="NoSchedule"), True),
        (Toleration(key="gpu", value="yes", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal", value="no", effect="NoSchedule"), False),
        (Toleration(key="gpu", operator="Equal", value="yes", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Equal", value="yes"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(operator="Exists", effect="NoSchedule"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(), False),
        (Toleration(operator="Equal", value="yes"), False),
        (Toleration(key="gpu", operator="Exists", value="yes"), False),
        (Toleration(key="gpu", operator="exists"), False),
    ],
)
def test_the_table_of_the_domain(toleration: Toleration, *, expected: bool) -> None:
    assert tolerates(toleration, GPU) is expected


@table(
    ("operator", "taint", "toleration", "expected"),
    [
        ("Gt", "10", "9", True),
        ("Gt", "9", "9", False),
        ("Lt", "8", "9", True),
        ("Lt", "9", "9", False),
        ("Lt", "-10", "-9", True),
        ("Gt", "010", "9", False),
        ("Gt", "10", "+9", False),
        ("Gt", "10", "", False),
        ("Lt", "x", "9", False),
        ("Lt", "9223372036854775806", "9223372036854775807", True),
        ("Gt", "9223372036854775808", "1", False),
        ("Lt", "-9223372036854775809", "1", False),
    ],
)
def test_comparisons_hold_the_taint_against_the_toleration(
    operator: str, taint: str, toleration: str, *, expected: bool
) -> None:
    marked = Taint(key="a", value=taint, effect="NoExecute")
    wanted = Toleration(key="a", operator=operator, value=toleration)
    assert tolerates(wanted, marked) is expected
    assert not tolerates(wanted, marked, comparison=False)


def test_as_upstream_the_matcher_takes_what_validation_refuses() -> None:
    assert tolerates(Toleration(value="yes"), GPU, strict=False)
    assert tolerates(Toleration(key="gpu", operator="Exists", value="no"), GPU, strict=False)


@table("text", ["", "-", "-0", "00", "+1", "1_0", "\uff11", " 1", "1\n", "9" * 5000])
def test_texts_that_are_no_canonical_integers(text: str) -> None:
    assert canonical_int64(text) is None


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_int64_reads_back(number: int) -> None:
    assert canonical_int64(str(number)) == number


def test_the_first_match_counts() -> None:
    tolerations = [
        Toleration(key="gpu", value="no"),
        Toleration(key="gpu", operator="Exists", toleration_seconds=5),
        Toleration(operator="Exists"),
    ]
    assert first_match(GPU, tolerations) == tolerations[1]
    assert first_match(GPU, tolerations[:1]) is None


def test_several_taints_work_as_a_filter() -> None:
    taints = [
        Taint(key="key1", value="value1", effect="NoSchedule"),
        Taint(key="key1", value="value1", effect="NoExecute"),
        Taint(key="key2", value="value2", effect="NoSchedule"),
        Taint(key="key3", value="value3", effect="PreferNoSchedule"),
    ]
    tolerations = [
        Toleration(key="key1", operator="Equal", value="value1", effect="NoSchedule"),
        Toleration(key="key1", operator="Equal", value="value1", effect="NoExecute"),
    ]
    assert untolerated(taints, tolerations, KUBERNETES.filtering) == (taints[2],)
    assert untolerated(taints, tolerations, KUBERNETES.filtering)
    assert not untolerated(taints[:2], tolerations, KUBERNETES.filtering)
    assert prefer_count(taints, tolerations, KUBERNETES.scoring) == 1


@given(TOLERATION_LISTS, TAINT_LISTS, TOLERATIONS)
def test_one_more_toleration_never_makes_a_node_worse(
    tolerations: list[Toleration], taints: list[Taint], more: Toleration
) -> None:
    for effects in (KUBERNETES.filtering, KUBERNETES.scoring):
        before = untolerated(taints, tolerations, effects)
        after = untolerated(taints, [*tolerations, more], effects)
        assert set(after) <= set(before)


@given(TOLERATIONS, TAINTS)
def test_documented_matching_is_within_upstreams(toleration: Toleration, taint: Taint) -> None:
    assert not tolerates(toleration, taint) or tolerates(toleration, taint, strict=False)


@pytest.mark.parametrize(
    ("counts", "scores"),
    [([], []), ([0, 0], [100, 100]), ([0, 1, 3], [100, 67, 0]), ([5], [0]), ([-3, 2], [250, 0]), ([-1], [100])],
)
def test_fewer_preferred_taints_score_better(counts: list[int], scores: list[int]) -> None:
    assert normalize_reversed(counts) == scores
