"""Names of targets and workloads."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field

from moorage_schemas.base import Model


class TargetKind(StrEnum):
    """What can carry taints and conditions."""

    NODE = "Node"
    CLUSTER = "Cluster"
    MANAGED_CLUSTER = "ManagedCluster"


class TargetRef(Model):
    """A target by kind and name; its `key` is the record key and decides the partition."""

    kind: TargetKind
    name: str = Field(min_length=1, max_length=253)

    @property
    def key(self) -> str:
        """`Kind/name`."""
        return f"{self.kind.value}/{self.name}"

    @classmethod
    def parse(cls, key: str) -> Self:
        """The target of a key.

        Raises:
            ValueError: the text is not `Kind/name` with a known kind.
        """
        kind, slash, name = key.partition("/")
        if not slash:
            raise ValueError(f"{key!r} is not Kind/name, such as Node/n1")
        return cls(kind=TargetKind(kind), name=name)

    def __str__(self) -> str:
        return self.key


class WorkloadRef(Model):
    """A workload by kind, namespace and name (`namespace` empty for what is cluster-scoped)."""

    kind: str = Field(min_length=1, max_length=63)
    namespace: str = Field(default="", max_length=63)
    name: str = Field(min_length=1, max_length=253)

    @property
    def key(self) -> str:
        """`Kind/namespace/name`."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, key: str) -> Self:
        """The workload of a key.

        Raises:
            ValueError: the text is not `Kind/namespace/name`.
        """
        parts = key.split("/")
        if len(parts) != 3:  # noqa: PLR2004 - kind, namespace, name
            raise ValueError(f"{key!r} is not Kind/namespace/name, such as Pod/default/web-0")
        return cls(kind=parts[0], namespace=parts[1], name=parts[2])

    def __str__(self) -> str:
        return self.key
