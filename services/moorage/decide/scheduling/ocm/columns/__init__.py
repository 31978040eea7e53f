"""The managed clusters of a fleet as columns: one value for each cluster, computed once and shared by all placements.

`column` has the base class and `managed_fleet` the rows. The others are the inputs of columns. They use the sets and
selectors of clusters, but neither placements nor plugins.
"""
