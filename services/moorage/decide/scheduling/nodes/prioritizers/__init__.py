"""Prioritizers of nodes, one module each. They are discovered by their `PLUGIN`."""
