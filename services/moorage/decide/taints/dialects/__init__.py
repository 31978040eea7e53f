"""The differences between Kubernetes, Karmada and OCM: effects, well-known keys, and which conditions become taints.

There is one module for each system. `table` maps a target's kind to its dialect.
"""
