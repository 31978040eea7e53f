"""What the three placement controllers share: the table of targets.

It knows none of the three; they rest on it.
"""
