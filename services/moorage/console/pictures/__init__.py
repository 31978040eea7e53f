"""Pictures as SVG: pure functions from plain data to markup. Pages place them beside tables of the same data."""
