"""The functions of expressions: one file for each library."""
