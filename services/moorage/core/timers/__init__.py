"""Deadlines that have not come yet: which counts, and which is due.

It asks for no time: `now` is an argument. It uses nothing of the core.
"""
