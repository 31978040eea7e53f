"""What is wrong with an object, field by field: one module for each family of kinds.

Every function returns all errors that it finds and raises none. It may use the rest of `admission` and what is before.
"""
