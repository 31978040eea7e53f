"""One file for each kind: its names, model, validation, defaults, versions, and its properties in the API.

`kind.py` has the base class and finds the kinds. `families/` has the code that several kinds share, `printing/` the
parts of tables and of `describe`, and `status/` derives the status of objects from records. A kind may use the core's
rules and the contract's models. It imports them inside its methods, because the command line loads all kinds for their
names. docs/kinds.md shows how to write one.
"""
