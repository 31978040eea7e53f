"""The features that the settings turn on, and the warnings about accepted writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.apiserver.admission.defaults import twice_named
from moorage.apiserver.admission.unknown_fields import unknown_field_warnings
from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.rules.validation.ties import without_domain
from moorage.decide.kubernetes.field_errors import quote
from moorage.runtime.settings.process_settings import Settings


def feature_gates(settings: Settings) -> FeatureGates:
    """The features that the settings of a process turn on."""
    return FeatureGates(
        failover=settings.failover,
        allow_no_execute_taint_policy=settings.allow_no_execute_taint_policy,
        enable_no_execute_taint_eviction=settings.enable_no_execute_taint_eviction,
        external_cloud=settings.cloud_provider == "external",
    )


def warnings(document: Mapping[str, Any], kind: Kind[Any], switches: FeatureGates) -> Iterator[str]:
    """Warnings for the writer of an object: which parts of it have no effect at present."""
    yield from unknown_field_warnings(document, kind)
    yield from kind.warnings(document, switches)


def finalizer_warnings(sent: Mapping[str, Any]) -> Iterator[str]:
    """Warnings about finalizers without a domain, which only kinds that are built into an API server must have.

    Args:
        sent: the object or the patch.
    """
    metadata = sent.get("metadata")
    finalizers = metadata.get("finalizers") if isinstance(metadata, Mapping) else None
    if isinstance(finalizers, list):
        for _, one in without_domain(finalizers):
            yield (
                f"metadata.finalizers: {quote(one)}: prefer a domain-qualified finalizer name to avoid accidental "
                "conflicts with other finalizer writers"
            )


def owner_warnings(sent: Mapping[str, Any]) -> Iterator[str]:
    """A warning about owners that an object names more than once.

    Args:
        sent: the object.
    """
    metadata = sent.get("metadata")
    if isinstance(metadata, Mapping) and (uids := twice_named(metadata.get("ownerReferences"))):
        yield (
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and "
            "may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(uids)
        )


def warning_header(text: str) -> str:
    """A warning in the form of the HTTP header `Warning` (RFC 7234), which kubectl shows.

    Names of fields come from the sender. What is not printable would break the header, or begin another one.
    """
    plain = "".join(char if char.isascii() and char.isprintable() else "?" for char in text)
    return '299 - "{}"'.format(plain.replace("\\", "\\\\").replace('"', '\\"'))
