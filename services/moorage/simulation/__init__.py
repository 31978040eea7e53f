"""A copy of the live state, and the real services on it: what `explain` reads and `simulate` runs.

`copy` takes it and runs it, `explain` asks it for reasons, `diff` compares two runs. Nothing here writes to Kafka:
there is no producer, no group, and no offset is committed.
"""
