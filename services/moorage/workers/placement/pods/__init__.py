"""Pods on nodes: bare pods, and those that controllers make, with the reservations of what is bound.

It uses `engine` and `moorage.core.scheduling.nodes`.
"""
