"""Which taints a target should have: from its conditions, its policies, people's edits, and what it carries already.

Built-in taints, holds, incidents, Karmada's cluster taint policies, OCM's own taints, add-ons and leases. It may use
`apimachinery` and the rest of `taints`.
"""
