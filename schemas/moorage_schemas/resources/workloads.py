"""The controllers that create pods from a template (apps/v1, batch/v1, v1)."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, Resource
from moorage_schemas.resources.pod import PodTemplate


class WorkloadSpec(OpenModel):
    """`spec` of a controller: the number of pods and their template."""

    replicas: int | None = None
    """If absent, 1. A DaemonSet and a Job do not have this field."""

    selector: LabelSelector | None = None
    template: PodTemplate = Field(default_factory=PodTemplate)


class Deployment(Resource):
    """A deployment (apps/v1)."""

    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)


class ReplicaSet(Resource):
    """A replica set (apps/v1)."""

    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)


class ReplicationControllerSpec(OpenModel):
    """`spec` of a replication controller, whose selector consists of labels alone."""

    replicas: int | None = None
    """If absent, 1."""

    selector: dict[str, str] | None = None
    template: PodTemplate = Field(default_factory=PodTemplate)


class ReplicationController(Resource):
    """A replication controller (v1), the older form of a replica set."""

    spec: ReplicationControllerSpec = Field(default_factory=ReplicationControllerSpec)


class StatefulSet(Resource):
    """A stateful set (apps/v1). Its pods keep their names."""

    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)


class DaemonSet(Resource):
    """A daemon set (apps/v1). It runs one pod on every node that fits."""

    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)


class JobSpec(OpenModel):
    """`spec` of a job: at most `parallelism` pods at a time, and at most `completions` in total."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    template: PodTemplate = Field(default_factory=PodTemplate)


class Job(Resource):
    """A job (batch/v1)."""

    spec: JobSpec = Field(default_factory=JobSpec)
