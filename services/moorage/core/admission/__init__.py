"""Admission: the defaults that an object gets, machine sets, and validation.

This room may import the rooms of the core below it. The gateway decides which rules apply to which kind, and when.
"""
