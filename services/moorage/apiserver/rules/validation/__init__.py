"""Validation of objects, field by field. There is one module for each family of kinds.

Functions that validate return all errors that they find, and raise none. Functions that check add them to the errors of
the document whose `CheckedField` they get.
"""
