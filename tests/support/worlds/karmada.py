"""Karmada clusters, policies and reports of deployers, for tests that run all services."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.support.worlds.flow import Record
from tests.support.worlds.world import PARTITIONS, TEMPLATE, World, every_service, flow_of

from moorage.apiserver.kinds.kind import named
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import HEALTHY
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, RESOURCE_BINDING
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS

GATES = {
    "feature_gates": "Failover=true",
    "enable_no_execute_taint_eviction": True,
    "resource_eviction_rate": "inf",
}


def api_of(kind: str) -> str:
    """The API version in which a kind is stored."""
    served = named(kind)
    assert served is not None, kind
    return served.api_versions[0]


class KarmadaWorld(World):
    """All services, clusters, policies and resources on clusters.

    Args:
        clusters: names of clusters to declare.
        seed: determines the order in which services run.
        settings: settings in addition to `GATES`.
    """

    kind: ClassVar[TargetKind] = TargetKind.CLUSTER

    def __init__(self, *clusters: str, seed: int | None = None, **settings: Any) -> None:
        self.settings = Settings(**{"partitions": PARTITIONS, **GATES, **settings})
        super().__init__(flow_of(every_service(self.settings), seed=seed))
        for name in clusters:
            self.cluster(name)

    def cluster(
        self,
        name: str,
        *,
        uid: str = "",
        labels: dict[str, str] | None = None,
        status: dict[str, Any] | None = None,
        **spec: Any,
    ) -> Record:
        """Declare a cluster."""
        return self.declare("Cluster", name, spec, uid=uid, labels=labels, status=status or {})

    def deploy(self, name: str, replicas: int = 1, **metadata: Any) -> Record:
        return self.declare("Deployment", name, {"replicas": replicas, "template": TEMPLATE}, **metadata)

    def policy(
        self, name: str = "p", placement: dict[str, Any] | None = None, *, kind: str = "Deployment", **spec: Any
    ) -> Record:
        annotations = spec.pop("annotations", {})
        selectors = spec.pop("selectors", [{"apiVersion": api_of(kind), "kind": kind}])
        body = {"resourceSelectors": selectors, "placement": placement or {}, **spec}
        return self.declare("PropagationPolicy", name, body, annotations=annotations)

    def healthy(self, cluster: str, name: str = "web-deployment", status: str = "True") -> Record:
        """Report a workload on a cluster as healthy or not, like a deployer."""
        return self.report(cluster, HEALTHY, status, source="deployer", workload=self.placed(name).workload)

    def ready(self, cluster: str, status: str = "True") -> Record:
        """Report a cluster as ready or not."""
        return self.report(cluster, "Ready", status)

    def check(self) -> None:
        """Check that every target, including one that is being left, has its binding, and that there are no others."""
        wanted = set()
        for event in self.flow.table(PLACEMENTS).values():
            if event.workload.kind in BINDING_KINDS:
                wanted |= {
                    (f"{event.workload}|{one.target}", one.binding_generation)
                    for one in (*event.targets, *event.leaving)
                }
            elif event.state is PlacementState.PLACED:
                wanted.add((f"{event.workload}|{event.target}", event.binding_generation))
        assert {(key, event.generation) for key, event in self.flow.table(BINDINGS).items()} == wanted

    def workload(self, name: str) -> str:
        """The key of what is placed on clusters."""
        return f"{RESOURCE_BINDING}/default/{name}"

    def placed(self, name: str = "web-deployment") -> WorkloadPlaced:
        found: WorkloadPlaced = self.flow.table(PLACEMENTS)[self.workload(name)]
        return found

    def where(self, name: str = "web-deployment") -> dict[str, int]:
        return {one.target.name: one.replicas for one in self.placed(name).targets}

    def leaving(self, name: str = "web-deployment") -> list[str]:
        return [one.target.name for one in self.placed(name).leaving]

    def binding(self, cluster: str, name: str = "web-deployment") -> WorkloadBound:
        found: WorkloadBound = self.flow.table(BINDINGS)[f"{self.workload(name)}|Cluster/{cluster}"]
        return found

    def bound(self) -> list[str]:
        return [key.rpartition("/")[2] for key in self.flow.table(BINDINGS)]

    def pods(self) -> list[str]:
        return [key for key in self.flow.table(PLACEMENTS) if key.startswith("Pod/")]

    def states(self) -> list[str]:
        return [event.state.value for event in self.flow.events(EVICTIONS)]


def ref(cluster: str) -> TargetRef:
    """The reference to a cluster."""
    return TargetRef(kind=TargetKind.CLUSTER, name=cluster)


ONE = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
DIRECT = {"cluster": {"purgeMode": "Directly"}}
