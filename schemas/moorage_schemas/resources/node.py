"""`Node` (v1): a target for pods."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import Resource
from moorage_schemas.taint import Taint


class OpenTaint(Taint, OpenModel):
    """A taint as a person writes it. The effect may be missing, so that validation can report it."""

    effect: str = ""


class NodeSpec(OpenModel):
    """`spec` of a node."""

    taints: list[OpenTaint] | None = None
    unschedulable: bool = False
    provider_id: str = Field(default="", alias="providerID")


class NodeStatus(OpenModel):
    """`status` of a node: the resources that it offers."""

    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    """The resources that pods may use. If absent, the capacity is used. A resource that neither field names is not
    offered, except `pods`, `cpu` and `memory`: if a node does not state them, it is assumed to have enough."""


class Node(Resource):
    """A node."""

    spec: NodeSpec = Field(default_factory=NodeSpec)
    status: NodeStatus = Field(default_factory=NodeStatus)
