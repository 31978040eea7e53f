"""Validation of eviction requests, as Kubernetes 1.37 has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.decide.kubernetes.field_errors import FieldError, invalid
from moorage.decide.kubernetes.names import check_dns_subdomain, check_qualified_name
from moorage.decide.kubernetes.unstructured import at

INTENTS: Final = ("Eviction", "Withdrawn")

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_RULE: Final = "must be a lowercase UUID in 8-4-4-4-12 format"
_RESERVED: Final = ("k8s.io", "kubernetes.io")


def validate_new_eviction_request(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the fields that cannot be changed."""
    spec = CheckedField(document)["spec"]
    pod = spec["target"]["pod"]
    if not pod.is_object:
        spec["target"].invalid("must specify one of: `pod`", "")
    else:
        if pod["name"].check_set():
            pod["name"].broken(check_dns_subdomain(pod["name"].text))
        if pod["uid"].check_set() and not _UUID.fullmatch(pod["uid"].text):
            pod["uid"].invalid(_UUID_RULE)
    requester = spec["requester"]
    if requester.check_set():
        if _is_reserved(requester.text):
            requester.invalid("domain names *.k8s.io, *.kubernetes.io are reserved")
        requester.broken(_check_prefixed_key(requester.text))
    return spec.errors


def validate_eviction_request(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the intent."""
    intent = CheckedField(document)["spec"]["intent"]
    if intent.check_set() and intent.text not in INTENTS:
        intent.not_supported(INTENTS)
    return intent.errors


def validate_eviction_request_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate that a change keeps the target and the requester."""
    return [
        invalid(f"spec.{field}", None, "field is immutable")
        for field in ("target", "requester")
        if (at(before, "spec", field) or None) != (at(after, "spec", field) or None)
    ]


def _is_reserved(key: str) -> bool:
    domain = key.partition("/")[0].lower().strip().rstrip(".")
    return any(domain == one or domain.endswith(f".{one}") for one in _RESERVED)


def _check_prefixed_key(key: str) -> list[str]:
    if errors := check_qualified_name(key):
        return errors
    return [] if "/" in key else ["must include a prefix (e.g. 'example.com/key')"]
