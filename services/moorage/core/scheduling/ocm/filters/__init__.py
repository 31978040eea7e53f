"""The filters of managed clusters, one a module."""
