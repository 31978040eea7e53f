"""The operation `addon_labels`: the labels of a managed cluster that show the states of its add-ons, at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from moorage.conformance.request_fields import Answer, RequestError, RequestFields
from moorage.conformance.request_objects import condition_in, labels_in, name_in, namespace_in, objects, one_object
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.addons import ADD_ON, LABEL_PREFIX, LEASE, AddOns
from moorage.decide.taints.desired.managed_taints import AVAILABLE
from moorage.decide.taints.desired.taint_reconciliation import reconcile_taints
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted

FIELDS: Final = ("now", "cluster", "addOns", "leases")

_STATUSES: Final = {one.value: one for one in ConditionStatus}
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def addon_labels(fields: RequestFields) -> Answer:
    """Return the labels after the add-ons were looked at. Everything that exists is in the request."""
    cluster = one_object(fields, "cluster")
    cluster["metadata"] = part(cluster, "metadata")
    now, name = fields.time("now", cut=False) or _NO_TIME, name_in(cluster)
    try:
        target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=name)
    except ValidationError:
        raise RequestError(
            FieldError("cluster.metadata.name", ErrorKind.INVALID, name, "must be the name of a cluster")
        ) from None
    before = {key: value for key, value in labels_in(cluster) if key.startswith(LABEL_PREFIX)}
    known = AddOns()
    for kind, listed in ((ADD_ON, "addOns"), (LEASE, "leases")):
        for one in objects(fields, listed):
            if namespace_in(one) == name:
                known.put(kind, name_in(one), _declared(kind, _as_read(one, kind, upstream=fields.upstream)))
    named = {key.removeprefix(LABEL_PREFIX) for key in before} | known.enabled.keys()
    missing = {(ADD_ON, one) for one in named - known.enabled.keys()} | {
        (LEASE, one) for one in named - known.leases.keys()
    }
    current = TargetTainted(target=target, target_uid="", generation=1, labels=before)
    reconciled = reconcile_taints(
        current,
        _declared(TargetKind.MANAGED_CLUSTER.value, cluster),
        _conditions(target, cluster),
        now,
        addons=known,
        removed=missing,
    )
    return {"labels": reconciled.event.labels if reconciled.event is not None else before}


def _declared(kind: str, document: dict[str, Any]) -> ResourceDeclared:
    return ResourceDeclared(object={**document, "kind": kind}, version=1)


def _as_read(document: dict[str, Any], kind: str, *, upstream: bool) -> dict[str, Any]:
    """Return an object as it is read. Upstream ignores how long a lease states to be valid."""
    if kind != LEASE or not upstream:
        return document
    spec = {name: value for name, value in part(document, "spec").items() if name != "leaseDurationSeconds"}
    return {**document, "spec": spec}


def _conditions(target: TargetRef, cluster: dict[str, Any]) -> dict[str, ConditionChanged]:
    found = condition_in(cluster, AVAILABLE)
    if found is None:
        return {}
    condition = ConditionChanged(
        target=target,
        type=AVAILABLE,
        status=_STATUSES.get(str(found.get("status")), ConditionStatus.UNKNOWN),
        last_transition_time=_NO_TIME,
        last_heartbeat_time=_NO_TIME,
        generation=1,
    )
    return {AVAILABLE: condition}
