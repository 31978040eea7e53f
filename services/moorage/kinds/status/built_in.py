"""Objects that exist although nobody has declared them."""

from __future__ import annotations

from typing import Final

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every Kubernetes API has."""
