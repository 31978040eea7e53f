"""The `moorage eval` operation `karmada_schedule`: where Karmada's scheduler places the resource of a ResourceBinding.

As upstream, its own code answers for one group of clusters: the one that the binding's status names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError
from typing_extensions import override

from moorage.conformance.request_fields import OBJECT, Answer, RequestError, RequestFields
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError
from moorage.decide.kubernetes.hashes import document_hash
from moorage.decide.kubernetes.quantities import INT64_MAX, PODS, QuantityError, whole_amounts, wrapped
from moorage.decide.scheduling.karmada.filters.taint_toleration import TaintToleration
from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterRequest
from moorage.decide.scheduling.karmada.replica_division import (
    AGGREGATED,
    DUPLICATED,
    MOST,
    Candidate,
    Division,
    NotEnoughError,
    division_of,
    scaled_down,
)
from moorage.decide.scheduling.karmada.resource_grades import room_by_grades
from moorage.decide.scheduling.karmada.scheduler import ClusterDecision, ClusterScheduler, groups_of, unavailable
from moorage.decide.scheduling.karmada.spread_constraints import SpreadError, choose, ignores_spread
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage.decide.taints.eviction_verdict import taint_text
from moorage.decide.taints.matching import untolerated
from moorage_schemas.resources.bindings import ResourceBindingSpec, ResourceBindingStatus
from moorage_schemas.resources.cluster import Cluster
from moorage_schemas.resources.policies import ClusterPlacement, ReplicaSchedulingStrategy
from moorage_schemas.taint import Taint

FIELDS: Final = ("clusters", "spec", "status")

_SELECT: Final = "failed to select clusters: "
_NOT_ENOUGH: Final = "no enough resource when selecting"
_ASSIGN: Final = "failed to assign replicas: "


class _CrashError(Exception):
    """Upstream's code divides by zero."""


def schedule(fields: RequestFields) -> Answer:
    """Return the clusters of a resource, with their replicas."""
    fields.need("spec")
    clusters = fields.items("clusters", lambda item, path: _cluster(fields, item, path))
    spec = _model(ResourceBindingSpec, fields.inner("spec", (), closed=False).values, "spec")
    status = _model(ResourceBindingStatus, fields.inner("status", (), closed=False).values, "status")
    request = _request(spec, status)
    fleet = ClusterFleet()
    if not fields.upstream:
        for cluster in clusters:
            fleet.put(cluster)
        return _answer(ClusterScheduler(fleet).decide(request))
    for cluster in clusters:
        if not cluster.deleted:
            fleet.put(_as_upstream(cluster))
    scheduler = _UpstreamScheduler(fleet, has_requirements=spec.replica_requirements is not None)
    named = dict(groups_of(request))
    group = request.placement.cluster_affinity or named.get(status.scheduler_observing_affinity_name)
    one_group = request.placement.model_copy(update={"cluster_affinity": group, "cluster_affinities": None})
    try:
        return _answer(scheduler.decide(replace(request, placement=one_group)))
    except _CrashError:
        return {"error": "runtime error: integer divide by zero", "panic": True}


def _answer(decision: ClusterDecision) -> Answer:
    if not decision.fits:
        against = {name: result.reason for result in decision.filters for name in result.targets}
        return {"fits": False, "why": dict(sorted(against.items()))}
    if decision.targets is None:
        counts = f"{unavailable(decision.considered, decision.filters)} "
        return {"fits": True, "unschedulable": decision.message.removeprefix(counts)}
    return {"fits": True, "targets": dict(sorted(decision.targets.items()))}


def _cluster(fields: RequestFields, item: Any, path: str) -> ClusterInfo:
    values = RequestFields.of(item, path, OBJECT, upstream=fields.upstream).values
    document = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {}, **values}
    cluster = _model(Cluster, document, path)
    taints = tuple(
        Taint(key=one.key, value=one.value, effect=one.effect, time_added=one.time_added)
        for one in cluster.spec.taints or ()
    )
    return ClusterInfo.of(document, taints)


def _request(spec: ResourceBindingSpec, status: ResourceBindingStatus) -> ClusterRequest:
    placement = spec.placement or ClusterPlacement()
    wanted = spec.replica_requirements.resource_request if spec.replica_requirements is not None else None
    try:
        requests = whole_amounts(wanted, "spec.replicaRequirements.resourceRequest")
    except QuantityError as error:
        raise RequestError(FieldError(error.field, ErrorKind.INVALID, error.value, error.rule)) from error
    return ClusterRequest(
        placement=placement,
        key=document_hash(placement.model_dump(mode="json", exclude_none=True)),
        api_version=spec.resource.api_version,
        kind=spec.resource.kind,
        uid=spec.resource.uid,
        replicas=spec.replicas,
        requests=tuple(sorted(requests.items())),
        existing={one.name: one.replicas for one in spec.clusters or ()},
        leaving=frozenset(task.from_cluster for task in spec.graceful_eviction_tasks or ()),
        affinity_name=status.scheduler_observing_affinity_name,
    )


def _model(model: Any, value: Mapping[str, Any], path: str) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join([path, *(str(step) for step in first["loc"])])
        raise RequestError(FieldError(at, ErrorKind.TYPE_INVALID, first["input"], first["msg"])) from error


# Upstream's own rules, where Moorage departs from them.


def _as_upstream(cluster: ClusterInfo) -> ClusterInfo:
    """Return a cluster that has nothing of the resources, and none of the kinds, that it does not name."""
    return replace(cluster, kinds=cluster.kinds or frozenset(), free=cluster.free or {})


class _UpstreamTolerations(TaintToleration):
    """The filter of taints as upstream matches tolerations."""

    @override
    def objection(self, request: ClusterRequest, cluster: ClusterInfo) -> str:
        if cluster.name in request.existing:
            return ""
        found = untolerated(cluster.taints, request.tolerations, KARMADA.filtering, comparison=False, strict=False)
        return f"cluster(s) had untolerated taint {{{taint_text(found[0])}}}" if found else ""


class _UpstreamScheduler(ClusterScheduler):
    def __init__(self, fleet: ClusterFleet, *, has_requirements: bool) -> None:
        filters = [
            _UpstreamTolerations() if isinstance(one, TaintToleration) else one for one in ClusterFilter.discovered()
        ]
        super().__init__(fleet, filters)
        self._has_requirements = has_requirements

    @override
    def room(self, request: ClusterRequest, cluster: ClusterInfo) -> int:
        free = cluster.free or {}
        most = free.get(PODS, 0)
        if not request.replicas or most <= 0:
            return 0
        if not self._has_requirements:
            return most
        by_grades = room_by_grades(cluster.grades, request.requests) if cluster.grades else None
        if cluster.grades and not any(amount for _, amount in request.requests):
            # Without a request, a node takes the most that 64 bits hold, and the sum over the nodes wraps around.
            by_grades = wrapped(sum(count for count, _ in cluster.grades) * INT64_MAX)
        if by_grades is None:
            by_grades = min((free.get(name, 0) // amount for name, amount in request.requests if amount), default=MOST)
        return min(most, by_grades)

    @override
    def choose(self, request: ClusterRequest, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        placement, strategy = request.placement, request.placement.replica_scheduling
        fields = {one.spread_by_field for one in placement.spread_constraints or ()}
        if _divides_by_zero(placement, candidates, request.replicas):
            raise _CrashError
        update: dict[str, Any] = {}
        if strategy is not None and _is_unsupported(strategy):
            # It spreads, and fails afterwards.
            update["replica_scheduling"] = strategy.model_copy(update={"replica_division_preference": AGGREGATED})
        # It filters by zones and providers, but forms no groups of them.
        kept = [one for one in placement.spread_constraints or () if one.spread_by_field in {"region", "cluster"}]
        update["spread_constraints"] = kept
        spread = placement.model_copy(update=update)
        if fields and not kept and not ignores_spread(spread):
            raise SpreadError(f"{_SELECT}just support cluster and region spread constraint")
        try:
            return self._at_most(spread, choose(spread, candidates, request.replicas))
        except SpreadError as error:
            is_full = error.reason.startswith(_NOT_ENOUGH) and not all(one.max_groups for one in kept)
            raise SpreadError(_SELECT + (f"{_NOT_ENOUGH} 0 clusters" if is_full else error.reason)) from error

    @staticmethod
    def _at_most(placement: ClusterPlacement, chosen: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the chosen clusters if no maximum is 0, which is a limit for upstream."""
        most = {one.spread_by_field: one.max_groups for one in placement.spread_constraints or ()}
        if ignores_spread(placement) or all(most.values()):
            return chosen
        if most.get("region") == 0:
            raise SpreadError("the number of clusters is less than the cluster spreadConstraint.MinGroups")
        if "region" in most:
            regions: dict[str, Candidate] = {}
            for one in chosen:
                regions.setdefault(one.cluster.facts.region, one)
            return list(regions.values())
        if division_of(placement) is Division.DUPLICATED:
            return ()
        raise SpreadError(f"{_NOT_ENOUGH} 0 clusters")

    @override
    def divide(self, request: ClusterRequest, chosen: Sequence[Candidate]) -> Mapping[str, int]:
        replicas, strategy = request.replicas, request.placement.replica_scheduling
        if not chosen:
            raise NotEnoughError(f"{_ASSIGN}no clusters available to schedule")
        if not replicas and not self._has_requirements:
            return super().divide(request, chosen)
        if strategy is not None and _is_unsupported(strategy):
            raise NotEnoughError(
                f"{_ASSIGN}unsupported replica scheduling strategy, replicaSchedulingType: Divided, "
                "replicaDivisionPreference: , please try another scheduling strategy"
            )
        if not replicas:
            return {}
        names, division = {one.name for one in chosen}, division_of(request.placement)
        assigned = sum(had for name, had in request.existing.items() if name in names)
        if division in {Division.AGGREGATED, Division.DYNAMIC_WEIGHT} and assigned > replicas:
            is_aggregated = division is Division.AGGREGATED
            return scaled_down(request.existing, replicas, request.uid, aggregated=is_aggregated)
        try:
            return super().divide(request, chosen)
        except NotEnoughError as error:
            raise NotEnoughError(f"{_ASSIGN}failed to scale up: {error}") from error


def _is_unsupported(strategy: ReplicaSchedulingStrategy) -> bool:
    return strategy.replica_scheduling_type != DUPLICATED and not strategy.replica_division_preference


def _divides_by_zero(placement: ClusterPlacement, candidates: Sequence[Candidate], replicas: int) -> bool:
    """Return whether no cluster of a group has room for all replicas. Upstream divides by the number of those."""
    fields = [one.spread_by_field for one in placement.spread_constraints or ()]
    if division_of(placement) is not Division.DUPLICATED:
        return False
    for field in fields:
        room: dict[str, int] = {}
        for one in candidates:
            facts = one.cluster.facts
            groups = {"region": (facts.region,), "zone": facts.zones, "provider": (facts.provider,)}.get(field, ())
            for group in filter(None, groups):
                room[group] = max(room.get(group, 0), one.available)
        if any(most < replicas for most in room.values()):
            return True
    return False
