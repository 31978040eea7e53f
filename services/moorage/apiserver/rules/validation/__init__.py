"""Validation of objects, field by field. There is one module for each family of kinds.

Every function returns all errors that it finds and raises none. This package may import the rest of `admission` and the
rooms below it.
"""
