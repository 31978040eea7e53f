"""What differs between Kubernetes, Karmada and OCM: effects, well-known keys, which comparisons count.

One module for each system; `table` finds the dialect of a target's kind.
"""
