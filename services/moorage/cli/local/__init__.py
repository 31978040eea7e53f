"""Moorage on this machine: the broker, the services and the gateway as child processes.

It uses `api`, to wait for what it has started.
"""
