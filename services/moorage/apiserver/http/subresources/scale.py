"""The subresource `scale` (autoscaling/v1): only the number of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.http.messages import bodies
from moorage.apiserver.kinds.kind import ServedKind, Untyped
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Cell, TableColumn, of
from moorage.apiserver.kinds.printing.kubernetes import selector_text
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import shorten
from moorage.apiserver.rules.machine_sets import wanted_replicas
from moorage.decide.kubernetes.field_errors import FieldError, invalid

_GROUP: Final = "autoscaling"
API_VERSION: Final = f"{_GROUP}/v1"
KIND: Final = "Scale"


def _replicas(part: str) -> Cell:
    """Return a cell of the replicas in a part of a scale."""
    return of(lambda found: str((found.get(part) or {}).get("replicas", 0)))


class ScaleKind(Untyped):
    """The scale of an object, as tables show it. It is never declared."""

    group = _GROUP
    kind = KIND
    namespaced = True
    columns = (
        TableColumn("Desired", _replicas("spec"), type="integer"),
        TableColumn("Available", _replicas("status"), type="integer"),
        AGE,
    )


SERVED: Final = ServedKind(ScaleKind(), "v1")
"""The kind of what the subresource answers."""

_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MOST: Final = 2**31 - 1

Document = dict[str, Any]


def scale_of(shown: Mapping[str, Any]) -> Document:
    """Return the scale of an object as it is shown."""
    metadata, status = shown["metadata"], shown.get("status") or {}
    scale: Document = {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {name: metadata[name] for name in _KEPT if name in metadata},
        "spec": {"replicas": replicas} if (replicas := wanted_replicas(shown)) else {},
        "status": {"replicas": int(status.get("replicas") or 0)},
    }
    if (selector := selector_text((shown.get("spec") or {}).get("selector"))) != NONE:
        scale["status"]["selector"] = selector
    return scale


def scaled(shown: Mapping[str, Any], scale: Mapping[str, Any], name: str) -> Document:
    """Return the object with the replicas from a scale, and the preconditions that the scale states.

    Raises:
        StatusError: 400 if the scale is not of this object, 422 if the number is invalid.
    """
    metadata = scale.get("metadata") or {}
    said = str(scale.get("apiVersion") or API_VERSION), str(scale.get("kind") or KIND)
    if said != (API_VERSION, KIND):
        raise bodies.of_another_type(_GROUP, KIND, *said)
    if (named := _part(metadata, "name") or name) != name:
        raise api_errors.bad_request(
            f"the name of the object ({shorten(named)}) does not match the name on the URL ({name})"
        )
    spec = scale.get("spec") or {}
    replicas = spec.get("replicas", 0) if isinstance(spec, Mapping) else spec
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas > _MOST:
        raise api_errors.bad_request(f"spec.replicas: invalid value {shorten(replicas)!r}: must be a 32-bit integer")
    if replicas < 0:
        raise _invalid(name, invalid("spec.replicas", replicas, "must be greater than or equal to 0"))
    own = {key: value for key, value in shown["metadata"].items() if key not in {"resourceVersion", "uid"}}
    wanted = {key: metadata[key] for key in ("resourceVersion", "uid") if _part(metadata, key)}
    return {**shown, "metadata": {**own, **wanted}, "spec": {**(shown.get("spec") or {}), "replicas": replicas}}


def _invalid(name: str, error: FieldError) -> api_errors.StatusError:
    return api_errors.invalid(_GROUP, KIND, name, [error])


def _part(metadata: Any, name: str) -> Any:
    if not isinstance(metadata, Mapping):
        raise api_errors.bad_request(f"metadata: invalid value {shorten(metadata)!r}: must be an object")
    return metadata.get(name)
