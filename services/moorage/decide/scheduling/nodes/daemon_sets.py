"""The nodes on which a DaemonSet wants a pod, and the numbers of its status.

Source: `NodeShouldRunDaemonPod` and `updateDaemonSetStatus` in k8s.io/kubernetes/pkg/controller/daemon.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from moorage.decide.kubernetes.selectors import matches_node_selector
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.matching import untolerated
from moorage_schemas.taint import Taint

K = TypeVar("K", bound=Hashable)


def wants_pod(
    shape: PodShape,
    only: str,
    *,
    name: str,
    labels: Mapping[str, str],
    taints: Sequence[Taint],
    comparison: bool = True,
    strict: bool = True,
) -> bool:
    """Return whether a DaemonSet wants a pod on a node, whatever room the node has.

    Args:
        shape: the shape of the DaemonSet's pods.
        only: the node that its template names. Empty for none.
        name: the name of the node.
        labels: the labels of the node.
        taints: the taints of the node.
        comparison: whether tolerations may compare numbers.
        strict: whether invalid tolerations match nothing.
    """
    if only not in {"", name} or any(labels.get(key) != value for key, value in shape.node_selector):
        return False
    if shape.required is not None and not matches_node_selector(shape.required, labels, name):
        return False
    return not untolerated(taints, shape.tolerations, KUBERNETES.filtering, comparison=comparison, strict=strict)


class DaemonPod(NamedTuple, Generic[K]):
    """A pod of a DaemonSet."""

    node: K
    ready: bool
    available: bool
    updated: bool
    """Whether it has the present template."""


class DaemonCounts(NamedTuple):
    """The numbers of a DaemonSet's status."""

    desired: int
    current: int
    misscheduled: int
    ready: int
    available: int
    updated: int

    @property
    def unavailable(self) -> int:
        """The number of wanted pods that are not available."""
        return self.desired - self.available


def daemon_counts(wanted: Collection[K], nodes: Collection[K], pods: Iterable[DaemonPod[K]]) -> DaemonCounts:
    """Count the pods of a DaemonSet.

    Args:
        wanted: the nodes on which it wants a pod.
        nodes: all nodes. Pods on others do not count.
        pods: the pods. Of several on a node, only the first counts.
    """
    first: dict[K, DaemonPod[K]] = {}
    for pod in pods:
        first.setdefault(pod.node, pod)
    current = [pod for pod in first.values() if pod.node in wanted]
    return DaemonCounts(
        desired=len(wanted),
        current=len(current),
        misscheduled=sum(pod.node in nodes and pod.node not in wanted for pod in first.values()),
        ready=sum(pod.ready for pod in current),
        available=sum(pod.ready and pod.available for pod in current),
        updated=sum(pod.updated for pod in current),
    )
