"""The results of a placement and their reports: verdicts, decision groups, pages of decisions, conditions.

`result` is the scheduler's result. The others turn it into records, conditions and explanations. They read columns and
the results of plugins, and select nothing.
"""
