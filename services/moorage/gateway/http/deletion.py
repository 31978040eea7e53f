"""The options of a DELETE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.core.apimachinery.field_errors import FieldError, invalid, not_supported
from moorage.gateway import errors
from moorage.gateway.admission.deletion import BACKGROUND_POLICY, ORPHAN_POLICY, POLICIES, DeleteOptions
from moorage.gateway.errors import shorten

_GROUP: Final = "meta.k8s.io"
_KIND: Final = "DeleteOptions"
_TRUE: Final = frozenset({"true", "1", "t", "T", "TRUE", "True"})


def options_of(body: Mapping[str, Any], query: Mapping[str, str]) -> DeleteOptions:
    """How an object is to be deleted, by the body of a DELETE and its query. The body counts first, as upstream.

    Args:
        body: `DeleteOptions`; empty if there was none.
        query: the parameters of the request.

    Raises:
        StatusError: 400 if a value has the wrong type, 422 if it is not allowed.
    """
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = query["orphanDependents"] in _TRUE
    if policy and orphan is not None:
        raise _refused(
            invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    if policy and policy not in POLICIES:
        raise _refused(not_supported("propagationPolicy", str(shorten(policy)), POLICIES))
    if orphan is not None:
        policy = ORPHAN_POLICY if orphan else BACKGROUND_POLICY
    return DeleteOptions(str(policy), _seconds(body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))))


def _seconds(value: object) -> int | None:
    if value is None or value == "":
        return None
    text = str(value)
    if isinstance(value, bool) or not text.removeprefix("-").isdecimal() or not text.isascii():
        raise errors.bad_request(f"gracePeriodSeconds: invalid value {shorten(value)!r}: must be a number of seconds")
    return int(text)


def _refused(error: FieldError) -> errors.StatusError:
    return errors.invalid(_GROUP, _KIND, "", [error])
