"""Placing in the OCM dialect: managed clusters for placements.

`facts` is what placing sees of one cluster, `fleet` all of them as columns, `terms` a placement's spec read once,
`scheduling` filters, scores and chooses. A filter or a prioritizer is one module in `filters` or `prioritizers`.
"""
