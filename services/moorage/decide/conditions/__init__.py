"""Conditions: which reports count, and how long a source may be silent.

This room may import `apimachinery` and `taints`.
"""
