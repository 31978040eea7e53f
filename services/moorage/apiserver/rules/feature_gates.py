"""The settings that affect admission, and the fields of the configuration that switch them on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage_schemas.taint import TaintEffect

CONFIGURATION: Final = "moorageconfiguration/cluster"
"""The configuration as commands name it."""

FAILOVER_SWITCH: Final = "spec.featureGates.Failover"
"""The field of the configuration that is the feature gate Failover."""

_EVICTION_SWITCH: Final = "spec.enableNoExecuteTaintEviction"
_BE: Final = {1: "is", 2: "are"}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The features that are switched on. All are off by default."""

    failover: bool = False
    """The feature gate Failover: whether ClusterTaintPolicies add taints, and whether work is evicted from clusters."""

    allow_no_execute_taint_policy: bool = False
    """Whether a ClusterTaintPolicy may contain a taint that evicts."""

    enable_no_execute_taint_eviction: bool = False
    """Whether such taints evict from clusters."""

    external_cloud: bool = False
    """Whether new nodes are declared with an external cloud provider."""


def ineffective_evictions(spec: Mapping[str, Any], gates: FeatureGates) -> Iterator[str]:
    """Yield a warning if taints of a cluster or of a policy should evict, but evictions from clusters are off."""
    evicting = any(taint.get("effect") == TaintEffect.NO_EXECUTE for taint in spec.get("taints") or ())
    missing = [
        field
        for field, on in ((FAILOVER_SWITCH, gates.failover), (_EVICTION_SWITCH, gates.enable_no_execute_taint_eviction))
        if not on
    ]
    if evicting and missing:
        fields = " and ".join(missing)
        yield f"NoExecute taints evict nothing from clusters until {fields} of {CONFIGURATION} {_BE[len(missing)]} true"
