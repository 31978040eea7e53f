"""What kinds of one family share: targets, workload controllers, propagation policies, roles."""
