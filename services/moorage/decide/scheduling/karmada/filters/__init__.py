"""Filters of clusters, one module each. They are discovered by their `PLUGIN`."""
