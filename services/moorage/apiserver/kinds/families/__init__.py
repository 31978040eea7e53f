"""Base classes for kinds of one family: targets, workload controllers, propagation policies, roles."""
