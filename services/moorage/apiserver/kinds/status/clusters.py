"""Records of a cluster as its own fleet has them: without the cluster in their keys and references.

The objects of a cluster are built by the same code as those of the home fleet, from tables of their own. So nothing
that counts, selects or compares objects of one fleet can find those of another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from moorage_schemas.base import Model
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import TIMERS

ModelT = TypeVar("ModelT", bound=Model)

_SEPARATOR = "|"


def cluster_of(topic: str, key: str) -> str:
    """Return the cluster that a record belongs to. Empty for the home fleet."""
    if ":" not in key:
        return ""
    if topic == TIMERS.short:  # what it is for comes first
        key = key.partition(_SEPARATOR)[2]
    return key.partition("/")[0].rpartition(":")[0]


def local_key(key: str, cluster: str) -> str:
    """Return the key of a record of a cluster, without the cluster."""
    return _SEPARATOR.join(part.removeprefix(f"{cluster}:") for part in key.split(_SEPARATOR))


def local_event(event: ModelT, cluster: str) -> ModelT:
    """Return a record of a cluster, without the cluster in its references and in the keys that it contains."""
    if isinstance(event, ResourceDeclared):  # the object itself names no cluster
        changes: dict[str, Any] = {"cluster": ""}
        for field in ("pods", "pod_metadata"):
            if found := getattr(event, field):
                changes[field] = _local(found, f"{cluster}:")
        return event.model_copy(update=changes)
    return cast("ModelT", _local(event, f"{cluster}:"))


def _local(value: Any, prefix: str) -> Any:
    """Return a value of a record without the cluster. It is the same value if it names none."""
    if isinstance(value, str):
        return value[len(prefix) :] if value.startswith(prefix) and "/" in value else value
    if isinstance(value, TargetRef | WorkloadRef):
        return value.model_copy(update={"cluster": ""}) if value.cluster else value
    if isinstance(value, Model):
        found = {name: (one, _local(one, prefix)) for name, one in value.__dict__.items()}
        changes = {name: now for name, (before, now) in found.items() if now is not before}
        return value.model_copy(update=changes) if changes else value
    if isinstance(value, tuple | list):
        items = [_local(one, prefix) for one in value]
        same = all(now is before for now, before in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if isinstance(value, Mapping):
        return {key: _local(one, prefix) for key, one in value.items()}
    return value
