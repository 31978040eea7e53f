"""Rules that keep a resource from clusters; one module each, found by its `PLUGIN`."""
