"""Rollouts: which clusters of an OCM placement have which version of a workload.

A rollout is decided in the partition of its placement, right after the placement, so it never sees half a decision.
"""
