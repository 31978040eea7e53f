"""The partition engine, without I/O: what is restored, in which order it is read, decided and written.

Whoever drives it (the owner on Kafka, a stack in memory) runs its generators, does what they ask for, and sends back
what they ask to know. There is no other engine: `simulate`, `explain` and every flow test drive this one.
"""
