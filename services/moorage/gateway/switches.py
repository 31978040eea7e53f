"""The settings that decide what is admitted, and what whoever writes is told although it was taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from moorage.runtime.settings import Settings
from moorage_schemas.taint import TaintEffect


@dataclass(frozen=True, slots=True)
class Switches:
    """What is switched on; all of it is off by default."""

    failover: bool = False
    """The feature gate: whether taints by ClusterTaintPolicy, and evictions from clusters, happen at all."""

    allow_no_execute_taint_policy: bool = False
    """Whether a ClusterTaintPolicy may hold a taint that evicts."""

    enable_no_execute_taint_eviction: bool = False
    """Whether such taints evict from clusters."""

    external_cloud: bool = False
    """Whether new nodes are declared with an external cloud provider."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The switches of a process."""
        return cls(
            failover=settings.failover,
            allow_no_execute_taint_policy=settings.allow_no_execute_taint_policy,
            enable_no_execute_taint_eviction=settings.enable_no_execute_taint_eviction,
            external_cloud=settings.cloud_provider == "external",
        )


_FAILOVER = "--feature-gates=Failover=true (MOORAGE_FEATURE_GATES=Failover=true)"
_EVICTION = "--enable-no-execute-taint-eviction=true (MOORAGE_ENABLE_NO_EXECUTE_TAINT_EVICTION=true)"


def warnings(document: Mapping[str, Any], switches: Switches) -> Iterator[str]:
    """What to tell whoever has written an object: what of it has no effect as things stand."""
    kind, spec = document.get("kind"), document.get("spec") or {}
    if kind == "ClusterTaintPolicy" and not switches.failover:
        yield f"the policy has no effect until Moorage is started with {_FAILOVER}"
    elif kind in {"ClusterTaintPolicy", "Cluster"}:
        evicting = any(taint.get("effect") == TaintEffect.NO_EXECUTE for taint in spec.get("taints") or ())
        missing = [
            flag
            for flag, on in ((_FAILOVER, switches.failover), (_EVICTION, switches.enable_no_execute_taint_eviction))
            if not on
        ]
        if evicting and missing:
            yield (
                f"NoExecute taints evict nothing from clusters until Moorage is started with {' and '.join(missing)}"
            )
    if kind in {"PropagationPolicy", "ClusterPropagationPolicy"}:
        failover = spec.get("failover") or {}
        if failover.get("cluster") and not switches.failover:
            yield f"spec.failover.cluster has no effect until Moorage is started with {_FAILOVER}"
        if failover.get("application"):
            yield "spec.failover.application has no effect: Moorage acts on taints of clusters, not on applications"


def warning_header(text: str) -> str:
    """A warning as the HTTP header `Warning` has it (RFC 7234), and kubectl shows it."""
    plain = text.encode("ascii", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{plain}"'
