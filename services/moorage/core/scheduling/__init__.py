"""Where work may live: one framework for filters and prioritizers, and three algorithms.

`nodes` finds one node for a pod, `karmada` spreads a resource over clusters and divides its replicas, `ocm` selects the
best clusters for a placement. The three share `framework` and may use every other room of the core.
"""
