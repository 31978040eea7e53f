"""How answers look: tables, `describe`, `explain`, events, simulations.

It asks `api` for what belongs to a described object, and knows no command. The columns of a kind are in the file of its
family; `tables` and `describe_kinds` join the families.
"""
