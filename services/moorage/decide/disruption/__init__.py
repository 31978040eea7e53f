"""How fast the fleet may be disrupted: zones and their rates, budgets, pauses, and which of them apply to an eviction.

This room may import the rooms of the core below it. Scheduling and admission do not use it.
"""
