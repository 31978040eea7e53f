"""The `moorage eval` operations on a managed cluster's taints: `ocm_taint_controller`, `ocm_taint_webhook`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from moorage.apiserver.rules.validation.core import validate_taints
from moorage.conformance.request_fields import OBJECT, Answer, RequestFields, taint_json
from moorage.decide.taints.desired.managed_taints import AVAILABLE, submitted, with_built_in
from moorage.decide.taints.dialects.ocm import OCM
from moorage_schemas.taint import Taint

_METADATA: Final = ("name", "deletionTimestamp")

_NO_CLUSTER: Final[Answer] = {"error": "cluster is missing"}
_NO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
"""Go's zero value of a time."""


def taint_controller(fields: RequestFields) -> Answer:
    """Return a cluster's taints after its built-in taints were updated. An added taint gets the time of the update."""
    fields.need("cluster")
    if not fields.has("cluster"):
        return dict(_NO_CLUSTER)
    cluster = fields.inner("cluster", OBJECT, closed=False)
    taints = _taints(cluster)
    metadata = cluster.inner("metadata", _METADATA, closed=False)
    available = _available(cluster)
    if metadata.time("deletionTimestamp") is not None:
        return _answer(taints)
    update = with_built_in(taints, available, by_identity=not fields.upstream)
    # Upstream leaves the time to its webhook, which this operation does not call.
    return _answer(update.taints, [taint is update.added and not fields.upstream for taint in update.taints])


def taint_webhook(fields: RequestFields) -> Answer:
    """Return the result for the taints that a person submits with a cluster."""
    fields.need("cluster")
    if not fields.has("cluster"):
        return dict(_NO_CLUSTER)
    # Upstream stores whole seconds but compares the submitted times unchanged.
    taints = _taints(fields.inner("cluster", OBJECT, closed=False), cut=False)
    old = _taints(fields.inner("old", OBJECT, closed=False)) if fields.has("old") else None
    if not fields.upstream and (errors := validate_taints(taints, "cluster.spec.taints", OCM)):
        return {"allowed": False, "message": "; ".join(map(str, errors))}
    made = submitted(taints, old, as_upstream=fields.upstream)
    if made.refused:
        return {"allowed": False, "message": made.message}
    if fields.upstream:
        return {"allowed": True} | _answer(map(_whole, made.taints), made.fresh)
    return {"allowed": True} | _answer(made.taints, made.fresh)


def _taints(cluster: RequestFields, *, cut: bool = True) -> list[Taint]:
    spec = cluster.inner("spec", ("taints",), closed=False)
    taints = spec.taints("taints", cut=cut)
    return [t.model_copy(update={"time_added": None}) if t.time_added == _NO_TIME else t for t in taints]


def _available(cluster: RequestFields) -> str | None:
    """Return the status of the first condition of the type. None if there is none."""
    conditions = cluster.inner("status", ("conditions",), closed=False).statuses("conditions")
    return next((status for kind, status in conditions if kind == AVAILABLE), None)


def _whole(taint: Taint) -> Taint:
    if taint.time_added is None:
        return taint
    return taint.model_copy(update={"time_added": taint.time_added.replace(microsecond=0)})


def _answer(taints: Iterable[Taint], fresh: Iterable[bool] = ()) -> Answer:
    every = list(taints)
    marks = list(fresh) or [False] * len(every)
    return {"taints": [taint_json(taint, fresh=mark) for taint, mark in zip(every, marks, strict=True)]}
