"""The partition engine, without I/O: it restores a state, and orders the reads, decisions and writes of records.

A driver (the task on Kafka, or a stack in memory) runs the engine's generators, carries out their requests, and sends
back the answers. There is no other engine: `simulate`, `explain` and every scenario test use this one.
"""
