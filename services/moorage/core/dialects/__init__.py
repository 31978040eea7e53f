"""The rule sets of the systems whose behaviour Moorage brings together; one module each."""
