"""Bridges a Karmada control plane: mirrors it, and stands in for its scheduler, taints and evictions."""
