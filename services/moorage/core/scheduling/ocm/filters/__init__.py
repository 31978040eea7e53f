"""Rules that rule managed clusters out; one module each, found by its `PLUGIN`."""
