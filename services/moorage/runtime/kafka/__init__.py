"""Drives the engine on Kafka: workers, partition tasks, producers, table readers, topics.

Everything that talks to a broker is here. It may use the engine and the modules at the runtime's root (service, codec,
settings, clock).
"""
