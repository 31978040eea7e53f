"""Rules that rule nodes out; one module each, found by its `PLUGIN`."""
