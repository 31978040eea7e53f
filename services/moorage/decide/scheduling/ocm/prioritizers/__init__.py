"""Prioritizers of managed clusters, one module each. They are discovered by their `PLUGIN`."""
