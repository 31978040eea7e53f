"""`ProbeGrant` (moorage.io/v1alpha1): what a source of reports may report, and who may use it."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import LabelSelector, Resource


class ProbeSubject(OpenModel):
    """A user, a group or a service account, as in a ClusterRoleBinding."""

    kind: str
    """`User`, `Group` or `ServiceAccount`."""

    name: str
    namespace: str = ""
    """The namespace of a service account."""

    api_group: str = ""
    """Empty, or `rbac.authorization.k8s.io` for users and groups."""


class ProbeTargets(OpenModel):
    """Targets of one kind. All parts are ANDed; an absent part selects all."""

    kind: str
    """`Node`, `Cluster` or `ManagedCluster`."""

    names: list[str] | None = None
    """Names, in which `*` stands for any text. The target has one of them."""

    selector: LabelSelector | None = None
    """Selects by the target's labels."""

    cluster: str = ""
    """The real cluster that they are in. If absent, the home fleet."""


class ProbeKey(OpenModel):
    """A key with which a probe signs the reports that it writes to Kafka."""

    id: str
    """The name of the key. A signature names it."""

    public_key: str
    """The public key as PEM: Ed25519, or ECDSA with P-256."""


class ProbeLimits(OpenModel):
    """How much a source may report: a token bucket, as in Kubernetes' EventRateLimit, and a size.

    The gateway counts for each source and user. In Kafka each partition counts for each source.
    """

    qps: int | None = None
    """Reports per second over a longer time. If absent, `MOORAGE_REPORT_QPS` counts."""

    burst: int | None = None
    """Reports that may come at once. If absent, ten times `qps`: what a probe that reports every ten seconds sends."""

    max_bytes: int | None = None
    """The maximum size of a report in bytes. If absent, only that of all reports counts (`reportMaxBytes`)."""


class ProbeGrantSpec(OpenModel):
    """What a source may report. A report counts if one grant covers all of it."""

    source: str = ""
    """The source of the reports, in which `*` stands for any text: `probe/disk/*`."""

    subjects: list[ProbeSubject] | None = None
    """Who may use the source through the gateway. If absent, nobody."""

    targets: list[ProbeTargets] = Field(default_factory=list)
    """The targets that it may report on: those that one of the entries selects."""

    conditions: list[str] = Field(default_factory=list)
    """The types of the conditions, in which `*` stands for any text. Types from which Moorage makes taints, such as
    `Ready`, count only if they are named without `*`."""

    workloads: bool = False
    """Whether it may also report on the workloads there."""

    keys: list[ProbeKey] | None = None
    """The keys of those who write to Kafka directly. If absent, nobody may."""

    limits: ProbeLimits | None = None
    """How much each source may report. If several grants name a source, one of them has to let a report through."""


class ProbeGrant(Resource):
    """Lets a source report on targets. Cluster-scoped."""

    spec: ProbeGrantSpec = Field(default_factory=ProbeGrantSpec)
