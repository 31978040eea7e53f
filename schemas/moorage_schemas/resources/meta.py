"""Parts that all Kubernetes-style objects share: metadata and label selectors."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel, Timestamp


class OwnerReference(OpenModel):
    """The object that created this one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(OpenModel):
    """`metadata` of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class SelectorRequirement(OpenModel):
    """One requirement of a selector: a key, an operator and values."""

    key: str
    operator: str
    """In, NotIn, Exists or DoesNotExist. Node selectors also accept Gt and Lt."""

    values: list[str] | None = None


class LabelSelector(OpenModel):
    """`matchLabels` and `matchExpressions`, ANDed. An empty selector selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class Resource(OpenModel):
    """Any object: the fields that all kinds have."""

    api_version: str
    kind: str
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
