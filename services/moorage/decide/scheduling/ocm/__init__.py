"""OCM placements: the candidates among the managed clusters, filters, scores, and the pages of a decision.

`columns` has the clusters, `filters` and `prioritizers` the plugins, and `decisions` their results. `spec` parses a
placement's spec, and `scheduler` selects. Nothing here imports `nodes` or `karmada`.
"""
