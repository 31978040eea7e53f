"""The prioritizers of managed clusters; one module each, found by its `PLUGIN`."""
