"""The state of one partition: its view of the whole, and the three controllers."""

from __future__ import annotations

from moorage.workers.placement.engine.controller import Controller
from moorage.workers.placement.engine.owner import OWNERS
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.karmada.controller import BindingController
from moorage.workers.placement.karmada.terms import Demand, Rules, demand_of
from moorage.workers.placement.ocm.controller import SelectionController
from moorage.workers.placement.pods.controller import PodController
from moorage.workers.placement.view import FleetView
from moorage_schemas.envelope import Meta


class PlacementPartition:
    """One partition.

    Args:
        partition: its number.
        rules: the settings by which resources leave clusters.
    """

    def __init__(self, partition: int, rules: Rules) -> None:
        self.partition = partition
        self.karmada = BindingController(rules, self.demand, self._flipped)
        """What a policy places on clusters instead of making pods."""

        self.ocm = SelectionController()
        self.pods = PodController(self.karmada.state.claims, self.karmada.state.would_claim)
        self.controllers: tuple[Controller, ...] = (self.karmada, self.ocm, self.pods)
        """In the order in which they reconcile: what is placed on clusters makes no pods on nodes."""

        self.view = FleetView()

    def attach(self, view: FleetView) -> None:
        """Use a view, and be told of what happens in it."""
        self.view = view
        view.attach(self)
        self.pods.attach(view.pods)
        self.karmada.attach(view.karmada)
        self.ocm.attach(view.ocm)

    def detach(self) -> None:
        """The partition is taken away: take back what it has assumed in the view."""
        self.view.detach(self)
        for controller in self.controllers:
            controller.leave()

    @property
    def begun(self) -> bool:
        """Whether everything is looked at, or on a queue, since the restore."""
        return all(controller.begun for controller in self.controllers)

    def due(self) -> bool:
        """Whether there is something to do, whatever the time."""
        return any(controller.due() for controller in self.controllers)

    def demand(self, key: str) -> Demand:
        """How much there is of a resource that a policy may place."""
        pods = self.pods.state
        return demand_of(pods.owners.get(key), pods.view.rules, pods.view.rules_version)

    def _flipped(self, key: str, cause: Meta | None) -> None:
        """A resource began, or ceased, to be placed on clusters: its pods on nodes are to be looked at."""
        if key.startswith(OWNERS):
            self.pods.work.add(Work(key, cause))
