"""Permissions on the managed clusters of a set: who may get a set may get its clusters, and so on.

Source: `stolostron/multicloud-operators-foundation`, which grants them beside Open Cluster Management.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moorage.decide.kubernetes.attributes import Attributes
from moorage_schemas.resources.names import GLOBAL_SET

OCM_GROUP: Final = "cluster.open-cluster-management.io"
SETS: Final = "managedclustersets"
CLUSTERS: Final = "managedclusters"

_GET: Final = "get"
_VERBS: Final = {_GET: _GET, "list": _GET, "watch": _GET, "update": "update", "patch": "update", "delete": "update"}
"""The verb on a set that permits a verb on its clusters."""


def of_cluster(asked: Attributes) -> bool:
    """Whether a question is about one managed cluster, and may be permitted by its set."""
    return (
        asked.resource == CLUSTERS
        and asked.group == OCM_GROUP
        and bool(asked.name)
        and not asked.subresource
        and asked.verb in _VERBS
    )


def set_attributes(asked: Attributes, name: str) -> Iterator[Attributes]:
    """What permits something with a managed cluster of a set.

    Args:
        asked: what somebody asks to do with the cluster.
        name: of the exclusive set that the cluster is in.
    """
    yield Attributes(_VERBS[asked.verb], OCM_GROUP, "", SETS, "", "", name)
    if _VERBS[asked.verb] == _GET:
        yield Attributes(_GET, OCM_GROUP, "", SETS, "", "", GLOBAL_SET)
