"""The managed clusters of a fleet as columns: one value for each cluster, computed once and shared by all placements.

`column` has the base class and `fleet` the rows. The others are what columns are computed from. They know the sets and
selectors of clusters, but neither placements nor plugins.
"""
