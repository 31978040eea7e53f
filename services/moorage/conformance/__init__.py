"""`moorage eval`: the pure core as a program that answers requests, and where Moorage departs from upstream.

Here live the operations, how a request is read and an answer is written, and the one list of deviations. They may use
the core and the contract, and no service, Kafka or clock.
"""
