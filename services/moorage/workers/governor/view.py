"""The data that budgets use: guards, the number of pods that workloads want, and bindings with their health.

The view updates sums with each record, so that a budget is counted without going through all bindings again. A record
of a binding costs a few look-ups, and one more for each budget in percent and each disruption budget of its namespace.
A new disruption budget costs one check of each pod of its namespace. A new budget in percent costs one pass over all
bindings when the numbers are requested. So does a target that changes its zone while such a budget exists.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

from moorage.decide.conditions.heartbeats import BY_BRIDGE
from moorage.decide.disruption.budgets import (
    BUDGET,
    DISRUPTION,
    GUARD_PREFIXES,
    Budget,
    Disruption,
    Subject,
    is_guard,
    is_healthy,
    is_pod,
    own_namespace,
)
from moorage.decide.disruption.eviction_reasons import MAINTENANCE_TAINT
from moorage.decide.disruption.guard_index import Guards
from moorage.decide.disruption.maintenance import MaintenancePlan
from moorage.decide.scheduling.nodes.pod_controllers import controller_reference, scaled_template
from moorage.decide.scheduling.nodes.workloads import WorkloadError, controller_of
from moorage.decide.taints.desired.incidents import zone_of_target
from moorage.decide.taints.matching import first_match
from moorage.runtime.process.memory import Pool
from moorage.runtime.service import Input
from moorage.runtime.settings.moorage_configuration import Configuration, ConfiguredView
from moorage_schemas.condition import HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import BindingKey, ResourceKey, split_cluster
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared, target_of_resource
from moorage_schemas.resources.workload_kinds import CONTROLLERS, POD, SCALED
from moorage_schemas.taint import Taint, TaintEffect
from moorage_schemas.topics import BINDINGS, CONFIGURATION, RESOURCES, WORKLOAD_CONDITIONS, Topic
from moorage_schemas.zone import NO_ZONE


@dataclass(slots=True)
class BoundWorkload:
    """A binding as budgets see it, without the content of its key. There may be a million of them."""

    owner: str
    """The key of the workload's owner; empty when it has none."""

    target: str
    generation: int
    labels: Mapping[str, str]
    """Bindings with equal labels share one object."""

    bound_time: float
    """Seconds since the epoch."""

    unhealthy: bool = False
    uid: str = ""
    """The uid of a mirrored workload; empty for one that is declared here."""


@dataclass(slots=True)
class WorkloadOwner:
    """An owner of workloads, and its bindings."""

    wanted: int | None = None
    """The number of pods that it wants; None when it is not declared, or does not state it."""

    template: Mapping[str, str] | None = None
    """The labels of the pods that it makes. None if it makes none, or does not state how many."""

    scaled_by: str = ""
    """The key of the mirrored Deployment that scales this mirrored ReplicaSet; empty for none."""

    scales: dict[str, None] = field(default_factory=dict)
    """The keys of the mirrored ReplicaSets that it scales."""

    bound: int = 0
    """The number of bindings of its pods."""

    on_clusters: int = 0
    """The number of bindings of the owner itself, as a resource that a policy places on clusters. Then it creates no
    pods."""

    unhealthy: dict[str, None] = field(default_factory=dict)
    """The keys of the bindings whose pods are reported unhealthy."""


@dataclass(slots=True)
class Selected:
    """The pods that a disruption budget selects."""

    pods: int = 0
    unhealthy: int = 0
    owners: dict[str, int] = field(default_factory=dict)
    """The number of selected pods of each owner. Pods without an owner are left out."""

    makers: dict[str, None] = field(default_factory=dict)
    """The owners whose templates are selected, so that those count of which all pods still wait for a node."""

    scale: int | None = None
    """The number of pods that those owners want; None when one of them does not state it. Valid while `scaled`."""

    scaled: bool = False


@dataclass(slots=True, weakref_slot=True, eq=False)
class Marks:
    """The changes since `clear` was last called."""

    guards: bool = True
    """Whether a pause or a budget has changed."""

    namespaces: set[str] = field(default_factory=set)
    """The namespaces in which a disruption budget has changed."""

    disruptions: set[str] = field(default_factory=set)
    """The disruption budgets whose pods have changed."""

    owners: set[str] = field(default_factory=set)
    bindings: set[str] = field(default_factory=set)
    bases: bool = True
    """Whether the number of bound workloads that a budget in percent counts has changed."""

    meta: Meta | None = None
    """The attributes of the last change."""

    def clear(self) -> None:
        """Note that nothing has changed."""
        self.guards = self.bases = False
        self.meta = None
        for changed in (self.namespaces, self.disruptions, self.owners, self.bindings):
            changed.clear()


_MAKERS: Final = tuple(f"{kind}/" for kind in CONTROLLERS)
_TARGETS: Final = (f"{TargetKind.NODE.value}/", f"{TargetKind.CLUSTER.value}/")
_MAINTENANCE: Final = "Maintenance/"
_RESOURCES: Final = (*GUARD_PREFIXES, *_MAKERS, *_TARGETS, _MAINTENANCE)
_OF_CLUSTERS: Final = (f"{DISRUPTION}/", *_MAKERS, *_TARGETS)
_HEALTHY: Final = f"|{HEALTHY}"
_REPLICA_SET: Final = "ReplicaSet"
_DEPLOYMENT: Final = "Deployment"
_MAINTENANCE_TAINT: Final = Taint(key=MAINTENANCE_TAINT, effect=TaintEffect.NO_EXECUTE.value)
_NO_LABELS: Final[Mapping[str, str]] = {}


class GovernorView(ConfiguredView):
    """The whole fleet as budgets see it.

    Args:
        configuration: the settings to decide by; None for a view that does not follow them.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self.guards = Guards()
        self._bound: dict[str, BoundWorkload] = {}
        self._owners: dict[str, WorkloadOwner] = {}
        self._pods: dict[str, dict[str, BoundWorkload]] = {}  # by namespace
        self._templates: dict[str, dict[str, Mapping[str, str]]] = {}  # the labels of the pods of owners, by namespace
        self._selected: dict[str, Selected] = {}
        self._on: dict[str, dict[str, None]] = {}  # the keys of the bindings of pods, by target
        self._lost: set[str] = set()  # the nodes that are not ready
        self._zones: dict[str, str] = {}
        self.maintenances: dict[str, tuple[MaintenancePlan, str, str]] = {}
        """The declared maintenances by name: the plan, the uid of the object, and the reason."""

        self._node_labels: dict[str, Mapping[str, str]] = {}  # of the nodes of the home fleet
        self._tolerant: set[str] = set()  # the bindings whose workloads tolerate a maintenance
        self._ill: dict[str, float] = {}  # when Moorage last accepted a report that a workload is unhealthy
        self._well: dict[str, tuple[str, int]] = {}  # uid and generation of bindings that bridges report as healthy
        self._labels: Pool[Mapping[str, str]] = Pool()
        self._bases: dict[tuple[str, str], int] | None = None
        self._percent: tuple[Budget, ...] = ()
        self._watchers: weakref.WeakSet[Marks] = weakref.WeakSet()

    def watch(self) -> Marks:
        """Return the record of changes from now on. It is kept up to date for as long as the caller keeps it."""
        marks = Marks()
        self._watchers.add(marks)
        return marks

    # Input from the log.

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        if topic is RESOURCES:
            return key.startswith(_RESOURCES) or split_cluster(key)[1].startswith(_OF_CLUSTERS)
        return topic is not WORKLOAD_CONDITIONS or key.endswith(_HEALTHY)

    @override
    def apply(self, record: Input) -> None:
        # an invalid resource counts as deleted
        for marks in self._watchers:
            marks.meta = record.meta
        if record.topic is CONFIGURATION:
            super().apply(record)
        elif record.topic is BINDINGS:
            self._bind(record.key, record.event if isinstance(record.event, WorkloadBound) else None)
        elif record.topic is WORKLOAD_CONDITIONS:
            self._condition(record)
        else:
            event = record.event if isinstance(record.event, ResourceDeclared) else None
            if is_guard(record.key):
                self._guard(record.key, event)
            elif record.key.startswith(_MAINTENANCE):
                self._maintenance(record.key, event)
            elif split_cluster(record.key)[1].startswith(_MAKERS):
                self._maker(record.key, event)
            else:
                self._target(record.key, event)

    @override
    def changed(self) -> Iterable[int] | None:
        # any record may change what a budget allows
        return None

    def _guard(self, key: str, event: ResourceDeclared | None) -> None:
        kind, namespace = ResourceKey.parse(key).kind, own_namespace(key)
        if kind == DISRUPTION:
            self._selected.pop(key, None)
            for marks in self._watchers:
                marks.namespaces.add(namespace)
                marks.disruptions.add(key)
        else:
            for marks in self._watchers:
                marks.guards = True
        try:
            self.guards.put(key, event.object if event is not None else None)
        finally:
            if kind == BUDGET:
                self._percent = tuple(one for one in self.guards.budgets.values() if one.percent)
                self._bases = None
        guard = self.guards.disruptions.get(key)
        if guard is not None:
            self._selected[key] = selected = Selected()
            for bound in self._pods.get(namespace, {}).values():
                if guard.selects(bound.labels):
                    _select(selected, bound, 1)
            selected.makers = {
                maker: None for maker, labels in self._templates.get(namespace, {}).items() if guard.selects(labels)
            }

    def _maker(self, key: str, event: ResourceDeclared | None) -> None:
        wanted: int | None = None
        template: Mapping[str, str] | None = None
        scaled_by = ""
        try:
            if event is not None:
                controller = controller_of(event.object)
                wanted = None if controller.daemon else controller.replicas
                scaled_by = _scaled_by(event)
                template = self._template(event)
        except WorkloadError:
            wanted = None
        owner = self._owners.get(key)
        if owner is None:
            if wanted is None and not scaled_by:
                return
            owner = self._owners[key] = WorkloadOwner()
        if owner.wanted == wanted and owner.scaled_by == scaled_by and owner.template == template:
            return
        touched = self._set_template(key, owner, template)
        owner.wanted = wanted
        self._follow_scale(key, owner, scaled_by)
        near = str(ResourceKey.parse(key)._replace(kind=DISRUPTION, name=""))
        makers = {key, *owner.scales}
        guards = {
            one
            for one, selected in self._selected.items()
            if one.startswith(near) and any(maker in selected.owners or maker in selected.makers for maker in makers)
        } | touched
        for guard_key in guards:
            self._selected[guard_key].scaled = False
        for marks in self._watchers:
            marks.owners.add(key)
            marks.disruptions |= guards
        self._tidy(key, owner)

    def _template(self, event: ResourceDeclared) -> Mapping[str, str] | None:
        found = scaled_template(event)
        return self._pooled(found) if found is not None else None

    def _set_template(self, key: str, owner: WorkloadOwner, template: Mapping[str, str] | None) -> set[str]:
        """Note the labels of the pods that an owner makes. Return the keys of the budgets for which that counts."""
        if owner.template == template:
            return set()
        namespace, before, after = (
            own_namespace(key),
            self._selecting(key, owner.template),
            self._selecting(key, template),
        )
        for guard in before:
            self._selected[guard.key].makers.pop(key, None)
        for guard in after:
            self._selected[guard.key].makers[key] = None
        owner.template = template
        if template is not None:
            self._templates.setdefault(namespace, {})[key] = template
        elif (known := self._templates.get(namespace)) is not None and known.pop(key, None) is not None and not known:
            del self._templates[namespace]
        return {guard.key for guard in (*before, *after)}

    def _selecting(self, key: str, template: Mapping[str, str] | None) -> tuple[Disruption, ...]:
        """Return the disruption budgets that select the pods of an owner. None stands for an owner that makes none."""
        if template is None:
            return ()
        return self.guards.disruptions_of(str(ResourceKey.parse(key)._replace(kind=POD)), template)

    def _follow_scale(self, key: str, owner: WorkloadOwner, scaled_by: str) -> None:
        """Note which Deployment scales a ReplicaSet."""
        before, owner.scaled_by = owner.scaled_by, scaled_by
        if before and before != scaled_by:
            known = self._owners[before]
            del known.scales[key]
            self._tidy(before, known)
        if scaled_by and before != scaled_by:
            self._owners.setdefault(scaled_by, WorkloadOwner()).scales[key] = None

    def _maintenance(self, key: str, event: ResourceDeclared | None) -> None:
        name = ResourceKey.parse(key).name
        self.maintenances.pop(name, None)
        if event is not None:
            reason = str((event.object.get("spec") or {}).get("reason") or "")
            self.maintenances[name] = (MaintenancePlan.of(event.object), event.uid, reason)

    def _target(self, key: str, event: ResourceDeclared | None) -> None:
        target = target_of_resource(key)
        if target is None:
            return
        if target.key.startswith(_TARGETS[0]):
            if event is None:
                self._node_labels.pop(target.key, None)
            else:
                self._node_labels[target.key] = (event.object.get("metadata") or {}).get("labels") or _NO_LABELS
        zone = zone_of_target(event) if event is not None else None
        if self._zones.get(target.key) == zone:
            return
        if zone is None:
            del self._zones[target.key]
        else:
            self._zones[target.key] = sys.intern(zone)
        if self._percent:
            self._bases = None
            for marks in self._watchers:
                marks.bases = True

    def _bind(self, key: str, event: WorkloadBound | None) -> None:
        """Fold in a binding, or its end. The records of a key are in order, so the last one counts."""
        before = self._bound.get(key)
        if before is not None:
            self._take(key, before)
        self._tolerant.discard(key)
        if event is not None:
            if event.tolerations and first_match(_MAINTENANCE_TAINT, event.tolerations) is not None:
                self._tolerant.add(key)
            owner, since = event.owner.key, event.bound_time.timestamp()
            bound = BoundWorkload(
                owner="" if key.startswith(f"{owner}|") else sys.intern(owner),
                target=sys.intern(event.target.key),
                generation=event.generation,
                labels=self._pooled(event.labels),
                bound_time=since,
                uid=event.uid if event.deployer else "",
            )
            bound.unhealthy = self._is_unhealthy(key, bound)
            self._put(key, bound)

    def _condition(self, record: Input) -> None:
        """Fold in a workload's health. A condition from before the binding does not count for it."""
        event, key = record.event, record.key.removesuffix(_HEALTHY)
        if isinstance(event, WorkloadConditionChanged) and event.status is ConditionStatus.FALSE:
            self._ill[key] = (event.accepted_time or event.last_heartbeat_time).timestamp()
        else:
            self._ill.pop(key, None)
        if (
            isinstance(event, WorkloadConditionChanged)
            and event.status is ConditionStatus.TRUE
            and event.source.startswith(BY_BRIDGE)
        ):
            self._well[key] = (event.workload_uid, event.binding_generation)
        else:
            self._well.pop(key, None)
        self._look_at(key)

    def set_ready(self, target: str, *, ready: bool) -> None:
        """Note whether a node is ready. The pods on it are unhealthy while it is not."""
        if ready == (target not in self._lost):
            return
        if ready:
            self._lost.discard(target)
        else:
            self._lost.add(target)
        for key in tuple(self._on.get(target, ())):
            self._look_at(key)

    def _look_at(self, key: str) -> None:
        """Note whether the workload of a binding is healthy now."""
        bound = self._bound.get(key)
        if bound is None:
            return
        unhealthy = self._is_unhealthy(key, bound)
        if unhealthy != bound.unhealthy:
            self._take(key, bound)
            bound.unhealthy = unhealthy
            self._put(key, bound)

    def _is_unhealthy(self, key: str, bound: BoundWorkload) -> bool:
        """Return whether a workload counts as unhealthy, by the last report about exactly this binding."""
        status = None
        if bound.uid:
            if self._well.get(key) == (bound.uid, bound.generation):
                status = ConditionStatus.TRUE
        elif self._ill.get(key, bound.bound_time - 1) >= bound.bound_time:
            status = ConditionStatus.FALSE
        ready = bound.target not in self._lost
        return not is_healthy(status, mirrored=bool(bound.uid), node_ready=ready)

    def _put(self, key: str, bound: BoundWorkload) -> None:
        self._bound[key] = bound
        if bound.owner:
            owner = self._owners.get(bound.owner)
            if owner is None:
                owner = self._owners[bound.owner] = WorkloadOwner()
            if not is_pod(key):
                owner.on_clusters += 1
                self._forget_scale(bound.owner, owner)
            else:
                owner.bound += 1
                if bound.unhealthy:
                    owner.unhealthy[key] = None
        if is_pod(key):
            self._pods.setdefault(own_namespace(key), {})[key] = bound
            self._on.setdefault(bound.target, {})[key] = None
        self._count(key, bound, 1)

    def _take(self, key: str, bound: BoundWorkload) -> None:
        del self._bound[key]
        if bound.owner:
            owner = self._owners[bound.owner]
            if not is_pod(key):
                owner.on_clusters -= 1
                self._forget_scale(bound.owner, owner)
            else:
                owner.bound -= 1
                owner.unhealthy.pop(key, None)
            self._tidy(bound.owner, owner)
        if is_pod(key):
            namespace = own_namespace(key)
            del self._pods[namespace][key]
            if not self._pods[namespace]:
                del self._pods[namespace]
            there = self._on[bound.target]
            del there[key]
            if not there:
                del self._on[bound.target]
        self._count(key, bound, -1)

    def _forget_scale(self, key: str, owner: WorkloadOwner) -> None:
        """Note that an owner may make pods from now on, or no more."""
        guards = [guard.key for guard in self._selecting(key, owner.template)]
        for guard_key in guards:
            self._selected[guard_key].scaled = False
        for marks in self._watchers:
            marks.disruptions.update(guards)

    def _count(self, key: str, bound: BoundWorkload, change: int) -> None:
        guards = [guard.key for guard in self.guards.disruptions_of(key, bound.labels)]
        for guard_key in guards:
            _select(self._selected[guard_key], bound, change)
        if self._percent and self._bases is not None:
            _add(self._bases, self._percent, self._subject(key, bound), change)
        for marks in self._watchers:
            marks.owners.add(bound.owner or BindingKey.parse(key).workload)
            marks.bindings.add(key)
            marks.disruptions.update(guards)
            marks.bases = marks.bases or bool(self._percent)

    def _subject(self, key: str, bound: BoundWorkload) -> Subject:
        workload = BindingKey.parse(key).workload
        zone = self._zones.get(bound.target) or _no_zone(bound.target)
        return Subject(workload, bound.owner or workload, bound.target, zone, bound.labels)

    def _pooled(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        return self._labels.shared(tuple(labels.items()), labels) if labels else _NO_LABELS

    def _tidy(self, key: str, owner: WorkloadOwner) -> None:
        if owner.wanted is None and not (owner.bound or owner.on_clusters or owner.scaled_by or owner.scales):
            self._owners.pop(key, None)

    # Queries.

    def nodes(self) -> list[str]:
        """Return every declared node, by its target's key."""
        return [target for target in self._zones if split_cluster(target)[1].startswith(_TARGETS[0])]

    def home_nodes(self) -> Iterator[tuple[str, str, Mapping[str, str], bool]]:
        """Yield name, zone and labels of each node of the home fleet, and whether it is ready."""
        for target, labels in self._node_labels.items():
            yield target.removeprefix(_TARGETS[0]), self._zones.get(target, NO_ZONE), labels, target not in self._lost

    def tolerates_maintenance(self, key: str) -> bool:
        """Return whether the workload of a binding tolerates the taint of a maintenance."""
        return key in self._tolerant

    def pods_on(self, target: str) -> Iterable[str]:
        """Return the keys of the bindings of the pods on a node."""
        return self._on.get(target, ())

    def bound(self, key: str) -> BoundWorkload | None:
        """Return the present binding of this key."""
        return self._bound.get(key)

    def owner(self, key: str) -> WorkloadOwner | None:
        """Return an owner of workloads; None when neither it nor any of its workloads exists."""
        return self._owners.get(key)

    def selected(self, key: str) -> Selected:
        """Return the pods that a disruption budget selects."""
        selected = self._selected.get(key) or Selected()
        if not selected.scaled:
            selected.scale, selected.scaled = self._scale(selected), True
        return selected

    def base(self, budget: Budget, part: str) -> int:
        """Return the number of bound workloads that a budget counts, in one of its parts."""
        if not budget.percent:
            return 0
        if self._bases is None:
            self._bases = {}
            for key, bound in self._bound.items():
                _add(self._bases, self._percent, self._subject(key, bound), 1)
        return self._bases.get((budget.key, part), 0)

    def parts(self, budget: Budget) -> list[str]:
        """Return the parts of a budget in percent that have bound workloads."""
        self.base(budget, "")
        return [part for key, part in self._bases or () if key == budget.key]

    def _scale(self, selected: Selected) -> int | None:
        wanted = 0
        makers = (key for key in selected.makers if not self._owners[key].on_clusters)
        for key in {self._scale_of(key) for key in (*selected.owners, *makers)}:
            owner = self._owners.get(key)
            if owner is None or owner.wanted is None or ResourceKey.parse(key).kind not in SCALED:
                return None
            wanted += owner.wanted
        return wanted

    def _scale_of(self, key: str) -> str:
        """Return the owner that states the number of pods: the Deployment of a mirrored ReplicaSet."""
        owner = self._owners.get(key)
        return owner.scaled_by or key if owner is not None else key


def _scaled_by(event: ResourceDeclared) -> str:
    """Return the key of the Deployment that scales a mirrored ReplicaSet; empty for none."""
    reference = controller_reference(event) if event.mirrored is not None and event.kind == _REPLICA_SET else None
    return reference.key if reference is not None and reference.kind == _DEPLOYMENT else ""


def _no_zone(target: str) -> str:
    cluster = split_cluster(target)[0]
    return f"{cluster}:{NO_ZONE}" if cluster else NO_ZONE


def _select(selected: Selected, bound: BoundWorkload, change: int) -> None:
    """Add a pod to the selected ones, or remove it."""
    selected.pods += change
    selected.unhealthy += change if bound.unhealthy else 0
    if not bound.owner:
        return
    count = selected.owners.get(bound.owner, 0) + change
    if count:
        selected.owners[bound.owner] = count
    else:
        selected.owners.pop(bound.owner, None)
    if count in (0, change):
        selected.scaled = False


def _add(bases: dict[tuple[str, str], int], budgets: Iterable[Budget], subject: Subject, change: int) -> None:
    for budget in budgets:
        if budget.test(subject):
            place = (budget.key, budget.part(subject))
            count = bases.get(place, 0) + change
            if count:
                bases[place] = count
            else:
                del bases[place]
