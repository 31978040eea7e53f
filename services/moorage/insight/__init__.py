"""Insight: the past is read, and decisions are made again on copies of it.

`copy` runs the real services on a copy of the live state, `explain` finds the reasons for decisions, `diff` compares
two runs, `replay` decides again on recorded input, and `query` is the worker that answers over HTTP. Nothing here
writes to Kafka: there is no producer, and no offset is committed.
"""
