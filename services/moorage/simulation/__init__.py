"""A copy of the live state, and the real services on it, for `explain` and `simulate`.

`copy` makes and runs the copy, `explain` finds the reasons for decisions, and `diff` compares two runs. Nothing here
writes to Kafka: there is no producer and no group, and no offset is committed.
"""
