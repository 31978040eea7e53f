"""What a filter and a prioritizer are, how they are found, and what is said of a target.

The three algorithms share it. It knows neither nodes nor clusters.
"""
