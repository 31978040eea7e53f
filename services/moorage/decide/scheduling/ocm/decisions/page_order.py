"""The order in which the pages of a placement are written, so that no cluster is ever on none of them.

A reader who sees the pages change one after the other deletes what is on none. So a page that gains a cluster from
another one is written before the page that loses it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

Step = dict[str, frozenset[str] | None]
"""Pages that may be written at the same time: the clusters of each, by name. None for a page that is deleted."""


def steps_between(before: Mapping[str, Collection[str]], after: Mapping[str, Collection[str]]) -> list[Step]:
    """Return the steps that lead from the clusters of the present pages to those of the new ones.

    After each step, and whatever the order within it, the pages contain every cluster that they contain both before and
    after. If pages exchange clusters, one of them first has those of before and after together. The present pages may
    be those after some of the steps, with a cluster on two of them.

    Args:
        before: the clusters of the present pages, by name.
        after: those of the new pages. A page that is missing is deleted.
    """
    names = before.keys() | after.keys()
    changed = {name for name in names if name not in before or name not in after or {*before[name]} != {*after[name]}}
    there = {cluster: name for name, clusters in after.items() for cluster in clusters}
    waits: dict[str, set[str]] = {  # a page that does not change has what it is to have
        name: {there[one] for one in before.get(name, ()) if there.get(one, name) in changed - {name}}
        for name in changed
    }
    steps: list[Step] = []
    while waits:
        step: Step = {
            name: frozenset(after[name]) if name in after else None for name in sorted(waits) if not waits[name]
        }
        if step:
            for name in step:
                del waits[name]
        else:  # all that are left gain from each other
            first = min(name for name in waits if any(name in others for others in waits.values()))
            step = {first: frozenset([*before.get(first, ()), *after.get(first, ())])}
        for others in waits.values():
            others.difference_update(step)
        steps.append(step)
    return steps
