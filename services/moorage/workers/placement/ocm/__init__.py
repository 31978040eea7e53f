"""OCM placements. The managed clusters that each of them selects are written as PlacementDecisions.

They have no bindings and no evictions: a decision itself is the order to add and to remove clusters.
"""
