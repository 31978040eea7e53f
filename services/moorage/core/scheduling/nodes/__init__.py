"""Pods on nodes, as kube-scheduler decides: shapes, filters, prioritizers, the best node, and what makes pods."""
