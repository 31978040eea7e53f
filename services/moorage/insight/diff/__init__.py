"""The effects of a change: the differences between a run with it and a run without it."""
