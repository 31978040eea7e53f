"""Resources that a policy claims: they are placed on Karmada clusters instead of creating pods on nodes.

The rest of the service only uses `claims` of a state (whether a resource is placed here), and passes records to it.
"""
