"""The prioritizers of managed clusters, one a module."""
