"""Replay: decide again on recorded topics, and compare the results with what was recorded.

Each process writes, beside its records, what does not follow from the records (`runtime.engine.journal`). Nothing in
this package decides: `player` drives the runtime's own engine through those steps.
"""
