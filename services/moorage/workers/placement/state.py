"""The state of one partition: its global view, and the three controllers."""

from __future__ import annotations

from moorage.runtime.measures import SeriesTally
from moorage.runtime.settings.moorage_configuration import Configuration, Derived
from moorage.workers.placement.engine.outbox import LastDecision
from moorage.workers.placement.engine.placement_controller import Controller
from moorage.workers.placement.engine.pod_source import POD_SOURCES
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.fleet_view import FleetView
from moorage.workers.placement.karmada.controller import BindingController
from moorage.workers.placement.karmada.resource import Demand
from moorage.workers.placement.karmada.terms import demand_of, rules_of
from moorage.workers.placement.ocm.controller import SelectionController
from moorage.workers.placement.pods.controller import PodController
from moorage.workers.placement.rollouts.rollout_controller import RolloutController
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import split_cluster


class PlacementPartition:
    """The state of one partition.

    Args:
        configuration: the settings to decide by, until there is a view that follows them.
    """

    def __init__(self, partition: int, configuration: Configuration) -> None:
        self.partition = partition
        self.karmada = BindingController(Derived(configuration, rules_of), self.demand, self._flipped)
        """The controller of resources that a policy places on clusters, so that they create no pods on nodes."""

        self.ocm = SelectionController(self._selected)
        self.rollouts = RolloutController(self.ocm.state)
        self.pods = PodController(self.karmada.state.claims, self.karmada.state.would_claim)
        self.controllers: tuple[Controller, ...] = (self.karmada, self.ocm, self.rollouts, self.pods)
        """The controllers in the order in which they reconcile. Resources on clusters create no pods on nodes. Rollouts
        follow the placements whose clusters they release.

        After them come those of the pods of clusters that are mirrored under a name."""

        self._clusters: dict[str, PodController] = {}
        self.tally: SeriesTally[str] = SeriesTally()
        """The workloads that were decided on since they were last counted, and the counts."""

        self.view = FleetView()
        self._attached = False

    def attach(self, view: FleetView) -> None:
        """Use a view, and be notified of its changes."""
        self.view = view
        view.attach(self)
        if view.configuration is not None:
            self.karmada.follow(view.configuration)
        self.pods.attach(view.pods)
        self.karmada.attach(view.karmada)
        self.ocm.attach(view.ocm)
        self.rollouts.attach(view.rollouts)
        for cluster, controller in self._clusters.items():
            controller.attach(view.pods_of(cluster))
        self._attached = True

    def pods_in(self, cluster: str) -> PodController:
        """Return the controller of the pods of a cluster; the home fleet has the empty name."""
        if not cluster:
            return self.pods
        known = self._clusters.get(cluster)
        if known is None:
            known = self._clusters[cluster] = PodController(_never, _never, cluster)
            self.controllers = (*self.controllers, known)
            if self._attached:
                known.attach(self.view.pods_of(cluster))
        return known

    def ensure_controller(self, key: str) -> None:
        """Create the controller for the pods of a record's cluster, unless it exists."""
        cluster, rest = split_cluster(key)
        if cluster and cluster not in self._clusters and rest.startswith(POD_SOURCES):
            self.pods_in(cluster)

    def detach(self) -> None:
        """Undo what the partition has assumed in the view, because the partition is taken away."""
        self._attached = False
        self.view.detach(self)
        for controller in self.controllers:
            controller.leave()

    def last_decision(self, workload: str) -> LastDecision | None:
        """Return the last decision on a workload; None when there is none."""
        for controller in self.controllers:
            if workload.startswith(controller.decisions):
                return controller.decision(workload)
        return None

    def due(self) -> bool:
        """Return whether there is something to do now, independent of the time."""
        return any(controller.due() for controller in self.controllers)

    def demand(self, key: str) -> Demand:
        """Return the replicas and requests of a resource that a policy may place, or of a mirrored binding."""
        resource = self.karmada.state.resources.get(key)
        if resource is not None and resource.mirrored is not None:
            return resource.mirrored.demand
        pods = self.pods.state
        return demand_of(pods.owners.get(key), pods.view.rules, pods.view.rules_version)

    def _selected(self, placement: str) -> None:
        """Check the rollouts over a placement, because it was declared or decided anew."""
        self.rollouts.placement_changed(placement)

    def _flipped(self, key: str, cause: Meta | None) -> None:
        """Check a resource's pods on nodes, because it has started, or stopped, being placed on clusters."""
        if key.startswith(POD_SOURCES):
            self.pods.work.add(Work(key, cause))


def _never(_resource: object) -> bool:
    """Return False: policies place only resources of the home fleet."""
    return False
