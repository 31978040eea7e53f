"""Rules that score nodes; one module each, found by its `PLUGIN`."""
