"""`Node` (v1): a target that carries pods."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import Resource
from moorage_schemas.taint import Taint


class OpenTaint(Taint, OpenModel):
    """A taint as a person writes it; the effect may be forgotten, for validation to name."""

    effect: str = ""


class NodeSpec(OpenModel):
    """`spec` of a node."""

    taints: list[OpenTaint] | None = None
    unschedulable: bool = False
    provider_id: str = Field(default="", alias="providerID")


class NodeStatus(OpenModel):
    """`status` of a node: what it offers."""

    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    """What pods may take; the capacity when absent. A resource that is named by neither is not offered, but for
    `pods`, `cpu` and `memory`: a node that says nothing about them is taken to have enough."""


class Node(Resource):
    """A node."""

    spec: NodeSpec = Field(default_factory=NodeSpec)
    status: NodeStatus = Field(default_factory=NodeStatus)
