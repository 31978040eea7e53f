"""`moorage eval`: the pure core as a program that answers requests, and the list of deviations from upstream.

This package contains the operations, the parsing of requests, the format of answers, and the only list of deviations.
It may import the core and the contract, but no service, Kafka or clock.
"""
