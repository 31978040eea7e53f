"""What an object gets when it is admitted, and whether it may be: defaults, machine sets, validation.

It may use the rooms of the core before it. Which rules apply to which kind, and when, the gateway says.
"""
