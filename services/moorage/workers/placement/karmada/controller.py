"""The controller of bindings to clusters: resources that a propagation policy places on Karmada clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import ClassVar

from pydantic import ValidationError
from typing_extensions import override

from moorage.runtime.settings.moorage_configuration import Configuration, Derived
from moorage.workers.placement.engine.outbox import LastDecision, Outbox, timed_cause
from moorage.workers.placement.engine.placement_controller import Controller
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.karmada.binding_state import BindingState
from moorage.workers.placement.karmada.binding_writer import BindingWriter
from moorage.workers.placement.karmada.cluster_view import ClusterListener, ClusterView
from moorage.workers.placement.karmada.reconcile import reconcile
from moorage.workers.placement.karmada.resource import CLAIMABLE, PLACED, Demand, is_part
from moorage.workers.placement.karmada.terms import Rules, rules_of
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import BINDING_KINDS


class BindingController(Controller, ClusterListener):
    """Reconciles the records of claimed resources with the demands of their policies.

    Args:
        rules: the present rules by which resources leave clusters.
        demand: returns the replicas and requests of a resource, by its key.
        flipped: called with a resource that starts or stops being placed on clusters, and with the cause. Its pods on
    nodes must then be checked.
    """

    resources: tuple[str, ...] = (*CLAIMABLE, *PLACED)
    decisions: tuple[str, ...] = PLACED
    at_once: ClassVar[int | None] = 200

    def __init__(
        self, rules: Derived[Rules], demand: Callable[[str], Demand], flipped: Callable[[str, Meta | None], None]
    ) -> None:
        super().__init__()
        self.state = BindingState()
        self._rules = rules
        self._rules_in_use = rules.value
        self._demand = demand
        self._flipped = flipped
        self._openings = 0
        self._rooms = 0
        self._policy_version = 0

    @property
    def rules(self) -> Rules:
        """The present rules by which resources leave clusters."""
        return self._rules.value

    def follow(self, configuration: Configuration) -> None:
        """Decide by the rules that follow from a configuration."""
        self._rules = Derived(configuration, rules_of)
        self._rules_in_use = self._rules.value

    def attach(self, view: ClusterView) -> None:
        """Use a view, and be notified of its changes."""
        self.state.view = view
        view.attach(self)

    @override
    def leave(self) -> None:
        self.state.view.detach(self)

    # Input from the topics of the partition.

    @override
    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        try:
            self.state.declare(key, event if event is not None and not is_part(event) else None)
        except ValidationError:
            self.state.declare(key, None)  # the gateway mirrors only readable bindings

    @override
    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        self.state.decided(key, event)

    @override
    def decision(self, workload: str) -> LastDecision | None:
        return self.state.last.get(self.state.owner_of(workload) or "")

    @override
    def is_new(self, event: ResourceDeclared) -> bool:
        # resources that are not mirrored bindings need only the view
        return event.mirrored is not None and event.kind in BINDING_KINDS and event.key not in self.state.resources

    @override
    def check_resource(self, key: str, cause: Meta) -> None:
        if self.state.concerned(key):
            self.work.add(Work(key, cause))

    @override
    def keys(self) -> list[str]:
        state = self.state
        return [key for key in sorted(state.resources.keys() | state.last.keys()) if state.concerned(key)]

    # Changes of the view.

    @override
    def notice(self, workload: str, meta: Meta) -> None:
        owner = self.state.owner_of(workload)
        if owner is not None:
            self.work.add_once(Work(owner, meta))

    @override
    def healthy(self, workload: str, meta: Meta) -> None:
        owner = self.state.owner_of(workload)
        if owner is not None and self.state.last[owner].leaving:
            self.notice(workload, meta)

    @override
    def cluster_removed(self, name: str, meta: Meta) -> None:
        for owner in self.state.at(name):
            self.work.add(Work(owner, meta, removed=name))

    # Work to do.

    @override
    def due(self) -> bool:
        state, view = self.state, self.state.view
        return (
            not self.begun
            or bool(self.work)
            or self._rules_in_use != self._rules.value
            or self._policy_version != view.policy_version
            or (bool(state.last) and self._openings != view.openings)
            or (bool(state.waiting) and self._rooms != view.rooms)
        )

    @override
    def next_time(self) -> datetime | None:
        return self.state.ends.next()

    @override
    def gather(self, now: datetime) -> None:
        state, view = self.state, self.state.view
        if not self.begun:
            self.begun = True
            for key in self.keys():
                self.work.add_once(Work(key, None))
        else:
            if self._policy_version != view.policy_version:
                for key in [key for key in self._of_changed_policies() if state.concerned(key)]:
                    self.work.add(Work(key, view.policy_by))
            if self._rules_in_use != self._rules.value:
                for key in self.keys():
                    self.work.add_once(Work(key, self._rules.configuration.cause))
            opened = self._openings != view.openings
            for key in sorted(state.last if opened else state.waiting if self._rooms != view.rooms else ()):
                self.work.add_once(Work(key, view.opened_by))
        self._rules_in_use = self._rules.value
        self._policy_version, self._openings, self._rooms = view.policy_version, view.openings, view.rooms
        for (owner, _), end in state.ends.take_due(now):
            self.work.add(Work(owner, timed_cause(owner, end)))

    @override
    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        writer = BindingWriter(self, self.state, self.rules, outbox)
        reconcile(writer, work, self._demand)
        if writer.flipped:
            self._flipped(work.key, work.cause)
        if writer.again is not None:
            self.work.add_once(Work(work.key, writer.again))

    def _of_changed_policies(self) -> Iterable[str]:
        """Return the resources that a changed policy may claim, or has claimed, sorted."""
        state = self.state
        scopes = state.view.changed_scopes(self._policy_version)
        if scopes is None:
            return sorted(state.resources)
        found: set[str] = set()
        for api_version, kind, namespace in scopes:
            keys = state.of_kind(api_version, kind)
            found.update(key for key in keys if not namespace or ResourceKey.parse(key).namespace == namespace)
        return sorted(found)
