"""Taints and tolerations: matching, verdicts, kubectl's syntax, and the dialects of the three systems.

`desired` computes the taints that a target should have. This room may import `apimachinery`.
"""
