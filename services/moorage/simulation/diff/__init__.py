"""What a change does: the differences between a run with it and a run without."""
