"""Drives the engine on Kafka. Everything that connects to a broker is here.

`clients` connects, `admin` keeps topics and users, `tables` reads whole topics, and `partition` has the worker of a
service and its partition tasks. Each room may use those before it.
"""
