"""Resources that a policy claims: placed on Karmada clusters instead of making pods on nodes.

The rest of the service knows `claims` of a state (whether a resource is placed here), and hands on what concerns it.
"""
