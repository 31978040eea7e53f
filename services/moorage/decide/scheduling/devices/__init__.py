"""Dynamic resource allocation: which devices a claim gets on a node, as Kubernetes decides it.

The features are those that are generally available or on by default in Kubernetes 1.37, except devices that several
claims share by capacity, and devices with binding conditions: such devices are not allocated.
"""
