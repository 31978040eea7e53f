"""The base classes of filters and prioritizers, their discovery, and the form of their results.

The three algorithms share these modules. They do not depend on nodes or clusters.
"""
