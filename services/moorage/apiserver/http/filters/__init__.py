"""Checks before a request reaches its route: host, origin, identity, permission, limits."""
