"""The brake: zones and their rates, budgets and pauses, and how to find those that concern an eviction.

It may use the rooms of the core before it; scheduling and admission know nothing of it.
"""
