"""OCM placements: the candidates among the managed clusters, filters, scores, and the pages of a decision.

`columns` has the clusters, `filters` and `prioritizers` the plugins, and `decisions` what comes of them. `spec` parses
what a placement asks for, and `scheduler` selects. Nothing here knows `nodes` or `karmada`.
"""
