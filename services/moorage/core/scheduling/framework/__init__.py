"""What the three algorithms share: how a plugin is found and what is said of a target, filter by filter.

It knows neither nodes nor clusters.
"""
