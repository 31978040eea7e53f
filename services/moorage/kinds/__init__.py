"""One file for each kind: its names, model, validation, defaults, versions and what the API offers for it.

`kind.py` has the base class and finds the others. `families/` has what several kinds share, `printing/` the parts of
tables and of `describe`, and `status/` the records that an object is shown from. A kind may use the core's
rules and the contract's models. It imports them inside its methods, since the command line loads every kind for its
names. docs/kinds.md shows how one is written.
"""
