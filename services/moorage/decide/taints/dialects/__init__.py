"""The differences between Kubernetes, Karmada and OCM: effects, well-known keys, and the taints of conditions.

There is one module for each system. `table` maps a target's kind to its dialect.
"""
