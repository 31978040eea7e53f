"""The taints that a target should have, computed from its conditions, policies, taint edits and present taints.

Contains built-in taints, holds, incidents, Karmada's cluster taint policies, OCM's own taints, add-ons and leases. This
room may import `apimachinery` and the rest of `taints`.
"""
