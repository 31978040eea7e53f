"""References to targets and workloads."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field

from moorage_schemas.base import Model


class TargetKind(StrEnum):
    """Kinds that can carry taints and conditions."""

    NODE = "Node"
    CLUSTER = "Cluster"
    MANAGED_CLUSTER = "ManagedCluster"


Cluster = Annotated[
    str, Field(max_length=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", exclude_if=lambda cluster: not cluster)
]
"""The cluster that contains the object. Empty for the home fleet; then the field is left out on the wire."""

HOME: Final = "home"
"""What the home fleet is called where a name is needed, such as in roles and lists of clusters."""


def fleet_called(cluster: str) -> str:
    """Return what a message calls a fleet, by the name of its cluster."""
    return f"the cluster {cluster}" if cluster else "the home fleet"


class TargetRef(Model):
    """A target by kind and name. Its `key` is the record key and determines the partition."""

    kind: TargetKind
    name: str = Field(min_length=1, max_length=253)
    cluster: Cluster = ""

    @property
    def key(self) -> str:
        """`Kind/name`. Outside the home fleet, the cluster and a colon precede it."""
        key = self.kind + "/" + self.name  # formatting an enumeration takes three times as long
        return key if not self.cluster else f"{self.cluster}:{key}"

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse the key of a target.

        Raises:
            ValueError: the text is not `Kind/name` with a known kind.
        """
        head, slash, name = key.partition("/")
        if not slash:
            raise ValueError(f"{key!r} is not Kind/name, such as Node/n1")
        cluster, _, kind = head.rpartition(":")
        return cls(kind=TargetKind(kind), name=name, cluster=cluster)

    def __str__(self) -> str:
        return self.key


class WorkloadRef(Model):
    """A workload by kind, namespace and name. `namespace` is empty for cluster-scoped kinds."""

    kind: str = Field(min_length=1, max_length=63)
    namespace: str = Field(default="", max_length=63)
    name: str = Field(min_length=1, max_length=253)
    cluster: Cluster = ""

    @property
    def key(self) -> str:
        """`Kind/namespace/name`. Outside the home fleet, the cluster and a colon precede it."""
        key = f"{self.kind}/{self.namespace}/{self.name}"
        return key if not self.cluster else f"{self.cluster}:{key}"

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse the key of a workload.

        Raises:
            ValueError: the text is not `Kind/namespace/name`.
        """
        parts = key.split("/")
        if len(parts) != 3:  # noqa: PLR2004 - kind, namespace, name
            raise ValueError(f"{key!r} is not Kind/namespace/name, such as Pod/default/web-0")
        cluster, _, kind = parts[0].rpartition(":")
        return cls(kind=kind, namespace=parts[1], name=parts[2], cluster=cluster)

    def __str__(self) -> str:
        return self.key
