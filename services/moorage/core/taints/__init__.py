"""Taints and tolerations: what matches, what a verdict is, kubectl's grammar, the dialects of the three systems.

`desired` works out which taints a target should have. It may use `apimachinery`.
"""
