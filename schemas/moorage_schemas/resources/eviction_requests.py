"""Kind `EvictionRequest` (lifecycle.k8s.io/v1alpha1), as Kubernetes 1.37 has it."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import Resource


class EvictionRequestPodReference(OpenModel):
    """A pod in the namespace of the request."""

    name: str = ""
    uid: str = ""
    """`metadata.uid` of the pod. The request has no effect on another pod with the name."""


class EvictionRequestTarget(OpenModel):
    """The object that is to be evicted: a pod."""

    pod: EvictionRequestPodReference | None = None


class EvictionRequestSpec(OpenModel):
    """The request of one requester."""

    target: EvictionRequestTarget = Field(default_factory=EvictionRequestTarget)
    """The object that is to be evicted. It cannot be changed."""

    requester: str = ""
    """The program that requests it, such as `acme.io/drain`. It cannot be changed."""

    intent: str = ""
    """`Eviction`, or `Withdrawn`."""


class EvictionRequest(Resource):
    """A request that a pod leaves its node."""

    spec: EvictionRequestSpec = Field(default_factory=EvictionRequestSpec)
