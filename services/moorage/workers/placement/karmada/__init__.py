"""Resources that a policy claims: they are placed on Karmada clusters instead of making pods on nodes.

The rest of the service uses only `claims` of a state (whether a resource is placed here), and passes on records that
concern it.
"""
