"""Rollouts: the order in which the clusters of a placement get a new version of a workload.

The rules are those of OCM's `RolloutStrategy`: `strategy` parses one, `evaluation` applies it.
"""
