"""Moorage on this machine: the broker, the services and the gateway as child processes.

It uses `api` to wait for the processes that it has started.
"""
