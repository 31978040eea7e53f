"""Pods on nodes, as in kube-scheduler: pod shapes, filters, prioritizers, the best node, and controllers of pods."""
