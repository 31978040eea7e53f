"""What a placement has selected, and how it is told: verdicts, decision groups, pages of decisions, conditions.

`result` is what the scheduler returns. The others turn it into records, conditions and explanations. They read columns
and the results of plugins, and select nothing.
"""
