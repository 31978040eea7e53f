"""The order in which pages are written: no cluster is ever on none of them."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from moorage.decide.scheduling.ocm.decisions.page_order import steps_between

Pages = dict[str, list[str]]


@st.composite
def pages(draw: st.DrawFn, most: int = 1) -> Pages:
    """Each cluster is on so many of some pages at most, or on none. Pages may be empty, or missing."""
    names = draw(st.sets(st.sampled_from("abcd"), max_size=4))
    found: Pages = {name: [] for name in sorted(names)}
    for cluster in range(draw(st.integers(0, 8))):
        for name in draw(st.sets(st.sampled_from([*found]), max_size=most)) if found else ():
            found[name].append(f"c{cluster}")
    return found


def everywhere(found: dict[str, frozenset[str]]) -> set[str]:
    return set(itertools.chain.from_iterable(found.values()))


@given(pages(most=2), pages())
def test_what_is_selected_before_and_after_is_always_on_a_page(before: Pages, after: Pages) -> None:
    now = {name: frozenset(clusters) for name, clusters in before.items()}
    kept = everywhere(now) & set(itertools.chain.from_iterable(after.values()))
    for step in steps_between(before, after):
        there = now
        for order in itertools.islice(itertools.permutations(step.items()), 24):
            there = dict(now)
            for name, clusters in order:
                if clusters is None:
                    del there[name]
                else:
                    there[name] = clusters
                assert kept <= everywhere(there)
        now = there
    assert now == {name: frozenset(clusters) for name, clusters in after.items()}


def test_a_page_is_written_once_unless_pages_exchange_clusters() -> None:
    grown = steps_between({"p1": ["b", "c"], "p2": ["d"]}, {"p1": ["a", "b"], "p2": ["c", "d"]})
    assert grown == [{"p2": frozenset("cd")}, {"p1": frozenset("ab")}]
    shrunk = steps_between({"p1": ["a", "b"], "p2": ["c"]}, {"p1": ["b", "c"]})
    assert shrunk == [{"p1": frozenset("bc")}, {"p2": None}]
    exchanged = steps_between({"p1": ["a"], "p2": ["b"]}, {"p1": ["b"], "p2": ["a"]})
    assert exchanged == [{"p1": frozenset("ab")}, {"p2": frozenset("a")}, {"p1": frozenset("b")}]
    assert steps_between({"p1": ["a"]}, {"p1": ["a"]}) == []


def test_steps_go_on_after_some_of_them() -> None:
    before, after = {"p1": ["a"], "p2": ["b"]}, {"p1": ["b"]}
    first, second = steps_between(before, after)
    assert (first, second) == ({"p1": frozenset("b")}, {"p2": None})
    assert steps_between({**before, **after}, after) == [second], "the rest was refused"
