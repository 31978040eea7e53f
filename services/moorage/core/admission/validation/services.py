"""Validation of Services, as far as a Service that nobody serves can be wrong, with Kubernetes' paths and messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.core.admission.validation.fields import inner, number, objects
from moorage.core.apimachinery.field_errors import FieldError, invalid

_NODE_PORTS: Final = range(30_000, 32_768)
"""The ports of nodes that a kube-apiserver gives to Services unless it is told others."""


def validate_service(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate that the ports of nodes are among those that Services have."""
    rule = (
        "provided port is not in the valid range. "
        f"The range of valid ports is {_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
    )
    return [
        invalid(f"{path}.nodePort", port, rule)
        for one, path in objects(inner(document, "spec"), "ports", "spec.ports")
        if (port := number(one, "nodePort")) and port not in _NODE_PORTS
    ]
