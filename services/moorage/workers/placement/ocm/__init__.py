"""OCM placements: which managed clusters each selects, written as PlacementDecisions.

There are no bindings of theirs and no evictions: a decision is itself the order to add and to remove.
"""
