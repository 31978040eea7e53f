"""Conditions: which reports count, and for how long a source may be silent.

It may use `apimachinery` and `taints`.
"""
