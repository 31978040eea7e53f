"""Scheduling on targets. One framework for filters and prioritizers, and three algorithms.

`nodes` finds one node for a pod. `karmada` spreads a resource over clusters and divides its replicas. `ocm` selects the
best clusters for a placement. All three use `framework` and may import every other room of the core.
"""
