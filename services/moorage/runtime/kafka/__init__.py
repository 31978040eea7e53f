"""What drives the engine on Kafka: workers, partition tasks, producers, readers of tables, topics.

Here is all that speaks to a broker. It may use the engine and the runtime's root (service, codec, settings, clock).
"""
