"""The number of decisions by cluster, compared with a full count."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.usage import GrowthSpan, Usage

NAMES = [f"c{i}" for i in range(6)]
steps = st.tuples(st.booleans(), st.lists(st.sampled_from(NAMES), max_size=4), st.sampled_from([1, 1, 40]))


@given(st.lists(steps, max_size=12), st.lists(st.sampled_from(NAMES), unique=True))
def test_counts_and_the_most_are_what_counting_all_gives(
    changes: list[tuple[bool, list[str], int]], own: list[str]
) -> None:
    fleet = ManagedFleet()
    fleet.put(ManagedClusterFacts("c0"))
    usage = Usage(fleet)
    counts: Counter[str] = Counter()
    spans: list[tuple[GrowthSpan, int, list[int]]] = []
    for adds, names, often in changes:
        many = names * often
        if adds:
            usage.add(many)
            counts.update(many)
        else:
            usage.remove(many)
            counts = Counter({name: max(0, counts[name] - many.count(name)) for name in NAMES})
        assert [int(usage.counts[fleet.row(name)]) for name in NAMES] == [counts[name] for name in NAMES]
        spans.append((usage.span, len(usage.span.added), [counts[name] for name in NAMES]))
        assert usage.most == max(counts.values(), default=0)
        less = Counter({name: max(0, counts[name] - (name in own)) for name in NAMES})
        without, most = usage.without(np.array([fleet.row(name) for name in own], dtype=np.intp))
        assert [int(without[fleet.row(name)]) for name in NAMES] == [less[name] for name in NAMES]
        assert most == max(less.values(), default=0)
    # What was counted at any time in a span can be told later, and nothing falls in it.
    rows = [fleet.row(name) for name in NAMES]
    for span, added, then in spans:
        assert span.counts(added)[rows].tolist() == then
    for (span, _, then), (later, _, now) in pairwise(spans):
        if span is later:
            assert all(one <= other for one, other in zip(then, now, strict=True))
            assert max(then) == max(now)


def test_a_fleet_that_grows_keeps_what_was_counted() -> None:
    fleet = ManagedFleet()
    usage = Usage(fleet)
    usage.add(["gone"])
    usage.add([f"c{i}" for i in range(500)])
    usage.add(["c499"])
    assert usage.most == 2
    assert int(usage.counts[fleet.row("gone")]) == 1
    assert usage.counts.size == fleet.capacity
