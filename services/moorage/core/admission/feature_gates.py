"""The settings that affect admission, and the flags that switch them on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage_schemas.taint import TaintEffect

FAILOVER_FLAG: Final = "--feature-gates=Failover=true (MOORAGE_FEATURE_GATES=Failover=true)"
_EVICTION_FLAG: Final = "--enable-no-execute-taint-eviction=true (MOORAGE_ENABLE_NO_EXECUTE_TAINT_EVICTION=true)"


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
        flag
        for flag, on in ((FAILOVER_FLAG, gates.failover), (_EVICTION_FLAG, gates.enable_no_execute_taint_eviction))
        if not on
    ]
    if evicting and missing:
        yield f"NoExecute taints evict nothing from clusters until Moorage is started with {' and '.join(missing)}"
