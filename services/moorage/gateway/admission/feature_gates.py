"""What the settings switch on, and what whoever writes is told although it was taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.core.admission.feature_gates import FeatureGates
from moorage.gateway.admission.unknown_fields import unknown_field_warnings
from moorage.kinds.kind import Kind
from moorage.runtime.settings import Settings


def feature_gates(settings: Settings) -> FeatureGates:
    """What the settings of a process switch on."""
    return FeatureGates(
        failover=settings.failover,
        allow_no_execute_taint_policy=settings.allow_no_execute_taint_policy,
        enable_no_execute_taint_eviction=settings.enable_no_execute_taint_eviction,
        external_cloud=settings.cloud_provider == "external",
    )


def warnings(document: Mapping[str, Any], kind: Kind[Any], switches: FeatureGates) -> Iterator[str]:
    """What to tell whoever has written an object: what of it has no effect as things stand."""
    yield from unknown_field_warnings(document, kind)
    yield from kind.warnings(document, switches)


def warning_header(text: str) -> str:
    """A warning as the HTTP header `Warning` has it (RFC 7234), and kubectl shows it."""
    plain = text.encode("ascii", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{plain}"'
