"""Topics that are read as tables."""
