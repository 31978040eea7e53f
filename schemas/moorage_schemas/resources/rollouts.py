"""`Rollout` (moorage.io/v1alpha1): a workload that reaches the clusters of an OCM placement group by group."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import Resource


class MandatoryGroup(OpenModel):
    """A decision group that must succeed before others follow: all groups of a name, or the one of an index."""

    group_name: str = ""
    group_index: int = 0
    """Counts only without a name."""


class RolloutConfig(OpenModel):
    """The limits of a rollout, as in OCM's `RolloutConfig`."""

    min_success_time: str = "0"
    """The soak time: how long a cluster must have been healthy before the next ones follow."""

    progress_deadline: str = "None"
    """How long a cluster may progress, or stay failed, until it has timed out: `90s`, `1h30m`, or `None`."""

    max_failures: int | str = 0
    """How many clusters may fail, as a number or a percentage, before no other cluster gets the workload."""


class RolloutAll(RolloutConfig):
    """To all clusters at once. Only the deadline counts."""


class RolloutProgressivePerGroup(RolloutConfig):
    """One decision group after the other."""

    mandatory_decision_groups: list[MandatoryGroup] = Field(default_factory=list)
    """The groups that come first. None of their clusters may fail."""


class RolloutProgressive(RolloutProgressivePerGroup):
    """A limited number of clusters at a time."""

    max_concurrency: int | str = 0
    """How many clusters may be in progress at a time, as a number or a percentage. 0 means all."""


class RolloutStrategy(OpenModel):
    """How a rollout proceeds: OCM's `RolloutStrategy`."""

    type: str = "All"
    """`All`, `Progressive` or `ProgressivePerGroup`."""

    all: RolloutAll | None = None
    progressive: RolloutProgressive | None = None
    progressive_per_group: RolloutProgressivePerGroup | None = None


class PlacementReference(OpenModel):
    """A placement of the same namespace."""

    name: str = ""
    """Required."""


class RolloutSpec(OpenModel):
    """The workload to roll out, where to, and how."""

    placement_ref: PlacementReference = Field(default_factory=PlacementReference)
    """The placement whose clusters get the workload. It cannot be changed."""

    version: str = ""
    """Required: the version of the workload, such as a generation, a hash or a tag. A new one starts a new rollout."""

    strategy: RolloutStrategy = Field(default_factory=RolloutStrategy)


class Rollout(Resource):
    """A rollout over the decision groups of a placement."""

    spec: RolloutSpec = Field(default_factory=RolloutSpec)
