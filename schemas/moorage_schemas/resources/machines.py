"""`MachineSet` (machine.openshift.io/v1beta1): a number of identical nodes (docs/domain.md, "Machine sets")."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, ObjectMeta, Resource
from moorage_schemas.resources.node import OpenTaint


class MachineSpec(OpenModel):
    """What the node of a machine gets: the labels and annotations of `metadata`, and taints."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    taints: list[OpenTaint] | None = None


class MachineTemplate(OpenModel):
    """The template of new machines. A change does not affect existing machines."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: MachineSpec = Field(default_factory=MachineSpec)


class MachineSetSpec(OpenModel):
    """`spec` of a machine set."""

    replicas: int | None = None
    """Absent means 1."""

    selector: LabelSelector | None = None
    template: MachineTemplate = Field(default_factory=MachineTemplate)


class MachineSet(Resource):
    """A set of machines, each of which becomes a node."""

    spec: MachineSetSpec = Field(default_factory=MachineSetSpec)
