"""The kinds: their names, models, defaults, versions, and properties in the API.

`kind.py` has the base class and discovers the kinds. `printing/` has the parts of tables and of `describe`, and
`status/` derives the status of objects from records. A kind may use the core's rules and the contract's models. It
imports them inside its methods, because the command line loads all kinds for their names. docs/kinds.md shows how to
write one.
"""
