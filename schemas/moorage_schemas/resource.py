"""Declared resources: what people and programs want, as Kubernetes-style objects."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.keys import ResourceKey, TargetKey
from moorage_schemas.refs import TargetKind, TargetRef


class TaintWish(Model):
    """A person's last word on one (key, effect) of a target.

    Wishes add up in the target's record, so that compaction loses none; the taint-manager works in
    those whose generation is above what it has applied.
    """

    key: str
    effect: str
    value: str = ""
    present: bool
    """True: the taint is wanted, with this value. False: it was taken away."""

    generation: int = Field(ge=1)
    time: Timestamp
    """When it was wished; the taint's `timeAdded` if the wish adds it (or what the object itself says)."""

    actor: str = ""


class ResourceDeclared(Model):
    """One resource as admitted. Topic `resources`, keyed by kind, namespace and name.

    The record of a target is partitioned as that target. A tombstone deletes.
    """

    event_type: ClassVar[str] = "io.moorage.resource.declared.v1"

    object: dict[str, Any]
    """The whole object with defaults filled in. A target's `spec.taints` is not kept here: see `wishes`."""

    version: int = Field(ge=1)
    """Grows by one with each write of this object."""

    wishes: tuple[TaintWish, ...] = ()
    """Of a target: one for each (key, effect) that was ever wished and still matters."""

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.object.get("kind", ""))

    @property
    def namespace(self) -> str:
        """The object's namespace; empty when it is cluster-scoped."""
        return str(self.object.get("metadata", {}).get("namespace") or "")

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.object.get("metadata", {}).get("name", ""))

    @property
    def uid(self) -> str:
        """The object's uid: another one after it was deleted and made again."""
        return str(self.object.get("metadata", {}).get("uid", ""))

    @property
    def key(self) -> str:
        """The record key."""
        return resource_key(self.kind, self.namespace, self.name)


def resource_key(kind: str, namespace: str, name: str) -> str:
    """The record key of a resource: `Kind/namespace/name`, the namespace empty when cluster-scoped."""
    return f"{kind}/{namespace}/{name}"


_TARGET_KINDS = frozenset(kind.value for kind in TargetKind)

OF_MANAGED_CLUSTERS = frozenset({"ManagedClusterAddOn", "Lease"})
"""Kinds whose objects belong to the managed cluster that their namespace is named after."""


def resource_partition_key(key: str) -> str:
    """What decides the partition of a resource's record: the target's key for a target and what belongs to it.

    Else its own key.
    """
    kind, namespace, name, cluster = ResourceKey.parse(key)
    if kind in OF_MANAGED_CLUSTERS:
        return str(TargetKey(TargetKind.MANAGED_CLUSTER.value, namespace, cluster))
    return str(TargetKey(kind, name, cluster)) if kind in _TARGET_KINDS else key


def target_of_resource(key: str) -> TargetRef | None:
    """The target that a resource's record key names; None when it is not of a target."""
    kind, _, name, cluster = ResourceKey.parse(key)
    return TargetRef(kind=TargetKind(kind), name=name, cluster=cluster) if kind in _TARGET_KINDS else None
