"""The reasons of Events about conditions of targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CONDITION_REASONS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("Node", "Ready"): {"True": "NodeReady", "False": "NodeNotReady"},
    ("Node", "MemoryPressure"): {
        "True": "NodeHasInsufficientMemory",
        "False": "NodeHasSufficientMemory",
        "Unknown": "NodeMemoryPressureUnknown",
    },
    ("Node", "DiskPressure"): {
        "True": "NodeHasDiskPressure",
        "False": "NodeHasNoDiskPressure",
        "Unknown": "NodeDiskPressureUnknown",
    },
    ("Node", "PIDPressure"): {
        "True": "NodeHasInsufficientPID",
        "False": "NodeHasSufficientPID",
        "Unknown": "NodePIDPressureUnknown",
    },
    ("Cluster", "Ready"): {"True": "ClusterReady", "False": "ClusterNotReady"},
    ("ManagedCluster", "ManagedClusterConditionAvailable"): {
        "True": "Available",
        "False": "Unavailable",
        "Unknown": "AvailableUnknown",
    },
}
"""The reasons of events by a target's kind and the type of its condition, for each status. An unknown one counts as
false if it has no reason of its own."""
