"""Pods on nodes: bare pods, and those that controllers create, with the reservations of bound pods.

It uses `engine` and `moorage.decide.scheduling.nodes`.
"""
