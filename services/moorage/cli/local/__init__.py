"""Moorage on this machine: the broker, the services and the gateway as child processes, and where they are."""
