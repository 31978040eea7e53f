"""Deadlines that have not passed yet: which of them count, and which are due.

The code never reads the clock: `now` is an argument. This room imports no other room of the core.
"""
