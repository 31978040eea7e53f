"""The API for people and programs: the Kubernetes API of the fleet, and the intake of condition reports.

Consumes: HTTP; the topics resources, taints, conditions, placements, bindings, evictions, timers, workload-conditions,
    zones, budgets (whole, into memory).
Keeps: nothing; everything that it shows is in the topics.
Emits: resources, audit (their only writer), condition-reports.
"""

from __future__ import annotations

from moorage.gateway.server import serve

__all__ = ["serve"]
