"""Output of commands: tables, `describe`, `explain`, events, simulations.

It reads related objects through `api`, and depends on no command. The columns of a kind are in the file of the kind.
"""
