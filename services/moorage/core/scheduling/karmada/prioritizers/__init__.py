"""Rules that score clusters; one module each, found by its `PLUGIN`."""
