"""Worlds for tests of whole flows: services on topics in memory, a virtual clock, and records from outside.

`flow` drives the services and plants faults. `world` has what all worlds share; `nodes`, `karmada` and `ocm` add what
is particular to pods on nodes, to Karmada's clusters and to OCM's.
"""
