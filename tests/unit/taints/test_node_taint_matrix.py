from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.taint_strategies import TAINT_LISTS, TOLERATION_LISTS

from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.matching import prefer_count, untolerated
from moorage.decide.taints.node_taint_matrix import TaintMatrix
from moorage_schemas.taint import Taint, Toleration

# A step: a node's name, and its taints, or None to remove it.
STEPS = st.lists(st.tuples(st.integers(0, 90).map("n{}".format), st.none() | TAINT_LISTS), max_size=60)
WORKLOADS = st.lists(TOLERATION_LISTS, min_size=1, max_size=5)


def agree(
    matrix: TaintMatrix,
    nodes: dict[str, list[Taint]],
    workloads: list[list[Toleration]],
    *,
    comparison: bool = True,
    strict: bool = True,
) -> None:
    """Check that the matrix gives the same answer as the scalar matcher for each node and workload."""
    assert len(matrix) == len(nodes)
    for tolerations in workloads:
        words = matrix.fits_words(tolerations)
        expected = sorted(
            name
            for name, taints in nodes.items()
            if not untolerated(taints, tolerations, KUBERNETES.filtering, comparison=comparison, strict=strict)
        )
        assert matrix.names(words) == expected
        bits, counts = matrix.fits(tolerations), matrix.prefer_counts(tolerations)
        assert bits.size == counts.size == matrix.slots
        assert int(bits.sum()) == len(expected)
        for name, taints in nodes.items():
            assert bits[matrix.slot_of(name)] == (name in expected)
            assert counts[matrix.slot_of(name)] == prefer_count(
                taints, tolerations, KUBERNETES.scoring, comparison=comparison, strict=strict
            )


@settings(max_examples=60)
@given(
    STEPS,
    STEPS,
    WORKLOADS,
    st.tuples(st.booleans(), st.booleans()),
)
def test_the_matrix_answers_as_the_scalar_matcher_through_changes(
    first: list[tuple[str, list[Taint] | None]],
    second: list[tuple[str, list[Taint] | None]],
    workloads: list[list[Toleration]],
    switches: tuple[bool, bool],
) -> None:
    comparison, strict = switches
    matrix = TaintMatrix(comparison=comparison, strict=strict)
    nodes: dict[str, list[Taint]] = {}
    for steps in (first, second):
        for name, taints in steps:
            if taints is not None:
                matrix.set_node(name, taints)
                nodes[name] = taints
            elif name in nodes:
                matrix.remove_node(name)
                del nodes[name]
        agree(matrix, nodes, workloads, comparison=comparison, strict=strict)


def test_an_empty_matrix_answers_emptily() -> None:
    matrix = TaintMatrix()
    assert matrix.fits([]).tolist() == []
    assert matrix.prefer_counts([]).tolist() == []
    assert matrix.names(matrix.fits_words([])) == []


def test_many_distinct_taints_and_nodes() -> None:
    nodes = {
        f"n{i}": [
            Taint(key="rack", value=f"r{i % 173}", effect="NoSchedule"),
            Taint(key="row", value=f"w{i % 29}", effect="PreferNoSchedule"),
        ]
        for i in range(700)
    }
    matrix = TaintMatrix()
    for name, taints in nodes.items():
        matrix.set_node(name, taints)
    workloads = 7 * [
        [Toleration(key="rack", value="r7"), Toleration(key="row", operator="Exists")],
        [Toleration(key="rack", operator="Exists", effect="NoSchedule")],
        [],
    ]
    agree(matrix, nodes, workloads)


def test_a_free_slot_is_used_again_and_fits_nothing() -> None:
    matrix = TaintMatrix()
    matrix.set_node("old", [])
    matrix.set_node("other", [])
    slot = matrix.slot_of("old")
    matrix.remove_node("old")
    assert "old" not in matrix
    assert matrix.fits([]).tolist() == [False, True]
    matrix.set_node("new", [Taint(key="a", effect="NoExecute")])
    assert matrix.slot_of("new") == slot
    assert matrix.names(matrix.fits_words([])) == ["other"]


def test_a_number_used_again_is_not_covered_by_a_remembered_toleration() -> None:
    matrix = TaintMatrix()
    tolerate_a = [Toleration(key="a", operator="Exists")]
    matrix.set_node("n", [Taint(key="a", effect="NoSchedule")])
    assert matrix.fits(tolerate_a).tolist() == [True]
    matrix.set_node("n", [])
    matrix.set_node("n", [Taint(key="b", effect="NoSchedule")])
    assert matrix.fits(tolerate_a).tolist() == [False]


def test_removing_an_unknown_node_is_an_error() -> None:
    with pytest.raises(KeyError):
        TaintMatrix().remove_node("n1")
