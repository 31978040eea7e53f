"""Record keys: how they are written and parsed.

A key is text, so that any client can build it. `|` separates the parts of a key, and `/` separates the parts of a name.
Names of Kubernetes objects contain neither character. The key of an object outside the home fleet starts with the name
of its cluster and a colon: `paris:Node/n1`.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from moorage_schemas.refs import TargetRef, WorkloadRef


class ResourceKey(NamedTuple):
    """Key of a resource or a workload: `Kind/namespace/name`. The namespace is empty for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str
    cluster: str = ""
    """The cluster that the object is in. Empty for the home fleet."""

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse a key. Parts that the key does not have are empty."""
        head, _, rest = key.partition("/")
        namespace, _, name = rest.partition("/")
        cluster, _, kind = head.rpartition(":")
        return cls(kind, namespace, name, cluster)

    def __str__(self) -> str:
        return f"{_of(self.cluster)}{self.kind}/{self.namespace}/{self.name}"


class TargetKey(NamedTuple):
    """Key of a target: `Kind/name`."""

    kind: str
    name: str
    cluster: str = ""
    """The cluster that the target is in. Empty for the home fleet."""

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse a key. The name is empty if the key has none."""
        head, _, name = key.partition("/")
        cluster, _, kind = head.rpartition(":")
        return cls(kind, name, cluster)

    def __str__(self) -> str:
        return f"{_of(self.cluster)}{self.kind}/{self.name}"


class ConditionKey(NamedTuple):
    """Key of a condition: the target's key and the condition's type."""

    target: str
    type: str

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse a key."""
        target, _, condition = key.partition("|")
        return cls(target, condition)

    def __str__(self) -> str:
        return f"{self.target}|{self.type}"


class BindingKey(NamedTuple):
    """Key of a binding: the workload's key and the target's key."""

    workload: str
    target: str

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse a key."""
        workload, _, target = key.partition("|")
        return cls(workload, target)

    def __str__(self) -> str:
        return f"{self.workload}|{self.target}"


class WorkloadConditionKey(NamedTuple):
    """Key of a workload's condition on a target."""

    workload: str
    target: str
    type: str

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse a key. Parts that the key does not have are empty."""
        workload, _, rest = key.partition("|")
        target, _, condition = rest.partition("|")
        return cls(workload, target, condition)

    def __str__(self) -> str:
        return f"{self.workload}|{self.target}|{self.type}"


class EvictionKey(NamedTuple):
    """Key of an eviction: its binding, and the binding's generation."""

    workload: str
    target: str
    generation: int

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse a key. The generation is 0 if the key has no number there."""
        workload, _, rest = key.partition("|")
        target, _, generation = rest.partition("|")
        return cls(workload, target, int(generation) if generation.isdigit() else 0)

    @property
    def binding(self) -> str:
        """The key of the binding."""
        return f"{self.workload}|{self.target}"

    def __str__(self) -> str:
        return f"{self.workload}|{self.target}|{self.generation}"


class LeaveKey(NamedTuple):
    """Key of a request to leave: its binding, and its requester (`Kind/name`)."""

    workload: str
    target: str
    requester: str

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse a key. Parts that the key does not have are empty."""
        workload, _, rest = key.partition("|")
        target, _, requester = rest.partition("|")
        return cls(workload, target, requester)

    def __str__(self) -> str:
        return f"{self.workload}|{self.target}|{self.requester}"


def split_cluster(key: str) -> tuple[str, str]:
    """The cluster that a key begins with, empty for the home fleet, and the rest of the key."""
    head, colon, rest = key.partition(":")
    return (head, rest) if colon and "/" not in head else ("", key)


def _of(cluster: str) -> str:
    return f"{cluster}:" if cluster else ""


def condition_key(target: TargetRef | str, condition_type: str) -> str:
    """The record key of a condition."""
    return f"{target}|{condition_type}"


def workload_condition_key(workload: WorkloadRef | str, target: TargetRef | str, condition_type: str) -> str:
    """The record key of a workload's condition on a target."""
    return f"{workload}|{target}|{condition_type}"


def binding_key(workload: WorkloadRef | str, target: TargetRef | str) -> str:
    """The record key of a binding."""
    return f"{workload}|{target}"


def eviction_key(workload: WorkloadRef | str, target: TargetRef | str, generation: int) -> str:
    """The record key of an eviction."""
    return f"{workload}|{target}|{generation}"


def leave_key(workload: WorkloadRef | str, target: TargetRef | str, requester: str) -> str:
    """The record key of a request to leave. The requester is `Kind/name`."""
    return f"{workload}|{target}|{requester}"
