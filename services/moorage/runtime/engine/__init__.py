"""The partition engine, without I/O: what is restored, and in which order records are read, decided on and written.

A driver (the owner on Kafka, or a stack in memory) runs the engine's generators, carries out their requests, and sends
back the answers. There is no other engine: `simulate`, `explain` and every scenario test use this one.
"""
