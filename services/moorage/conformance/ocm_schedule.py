"""The `moorage eval` operation `ocm_schedule`: which managed clusters a placement selects, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from moorage.conformance.ocm_controller import controlled
from moorage.conformance.request_fields import OBJECT, SELECTED, Answer, RequestError, RequestFields
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, invalid, not_supported
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.decisions.result import Scheduled
from moorage.decide.scheduling.ocm.scheduler import Candidates, PlacementScheduler
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage_schemas.resources.managed import Placement
from moorage_schemas.resources.names import PLACEMENT_LABEL

SCHEDULER: Final = "scheduler"
CONTROLLER: Final = "controller"

_METADATA: Final = ("name", "namespace", "labels")
_ANY_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")


@dataclass(slots=True)
class _Fleet:
    """The clusters and decisions of a request."""

    fleet: ManagedFleet
    clusters: dict[str, ManagedClusterFacts]
    decided: list[str]
    """The clusters that the placement has already."""

    usage: Usage
    """The decisions of all other placements."""


def ocm_schedule(fields: RequestFields) -> Answer:
    """Schedule a placement: only among the given clusters, or like the whole controller."""
    fields.need("placement")
    if not fields.has("placement"):
        return {"error": "placement is missing"}
    level = _level(fields)
    placement = _placement(fields)
    terms = terms_of(placement.spec, as_upstream=fields.upstream)
    given = _fleet(fields, placement)
    now = fields.time("now", cut=False)
    if now is None:
        fields.need("now")
        now = _ANY_TIME
    scheduler = PlacementScheduler(given.fleet)

    def schedule(candidates: Candidates) -> Scheduled:
        try:
            return scheduler.schedule(
                terms,
                candidates=candidates,
                decided=given.decided,
                usage=given.usage,
                usage_has_decided=False,
                now=now,
            )
        except ValueError:
            # A negative number, as upstream, which crashes while selecting.
            rule = "must be greater than or equal to 0"
            raise RequestError(invalid("placement.spec.numberOfClusters", terms.number, rule)) from None

    answer: Answer = {"level": level}
    if fields.upstream:
        # Upstream's answer depends on the taints alone, and on the earlier decisions, whatever is decided now.
        again = scheduler.requeue_at(terms, given.decided, now)
        if again is not None:
            answer["requeueTime"] = _seconds(again)
    if level == SCHEDULER:
        return answer | _shown(schedule(given.fleet.present), given.fleet, upstream=fields.upstream)
    return answer | controlled(
        fields,
        placement,
        given.clusters,
        schedule=lambda names: schedule(given.fleet.mask(names)),
        show=lambda outcome: _shown(outcome, given.fleet, upstream=fields.upstream),
    )


def _level(fields: RequestFields) -> str:
    level = fields.text("level")
    if not level:
        return CONTROLLER if fields.values.get("clusterSets") or fields.values.get("bindings") else SCHEDULER
    if level not in {SCHEDULER, CONTROLLER}:
        if fields.upstream:
            return CONTROLLER
        raise RequestError(not_supported("level", level, (SCHEDULER, CONTROLLER)))
    return level


def _placement(fields: RequestFields) -> Placement:
    document = _document(fields.values["placement"], "placement")
    if fields.upstream:
        document = _weighted(document)
    return _read(Placement.model_validate, {"apiVersion": "", "kind": "", **document}, "placement")


def _weighted(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the placement. Where no weight is given it is 0, as in upstream's program; the API's default is 1."""
    spec = part(document, "spec")
    policy = part(spec, "prioritizerPolicy")
    given = policy.get("configurations")
    if not isinstance(given, list):
        return document
    weighted = [{"weight": 0, **one} if isinstance(one, Mapping) else one for one in given]
    return {**document, "spec": {**spec, "prioritizerPolicy": {**policy, "configurations": weighted}}}


def _fleet(fields: RequestFields, placement: Placement) -> _Fleet:
    fleet = ManagedFleet()
    clusters = {}
    for document, path in fields.items("clusters", lambda item, path: (_document(item, path), path)):
        facts = _read(ManagedClusterFacts.of, document, path)
        fleet.put(facts)
        clusters[facts.name] = facts
    for document, path in fields.items("scores", lambda item, path: (_document(item, path), path)):
        fleet.put_score(_read(ScoreFacts.of, document, path))
    usage = Usage(fleet)
    decided: list[str] = []

    def read(decision: RequestFields) -> None:
        metadata = decision.inner("metadata", _METADATA, closed=False)
        status = decision.inner("status", ("decisions",), closed=False)
        names = status.objects("decisions", SELECTED, lambda selected: selected.text("clusterName"))
        whose = (metadata.text("namespace"), metadata.mapping("labels").get(PLACEMENT_LABEL))
        if whose == (placement.metadata.namespace, placement.metadata.name):
            decided.extend(names)
        else:
            usage.add(names)

    fields.objects("decisions", OBJECT, read)
    return _Fleet(fleet, clusters, decided, usage)


def _document(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RequestError(FieldError(path, ErrorKind.TYPE_INVALID, value, "must be an object"))
    return {str(name): _without_nulls(item) for name, item in value.items() if item is not None}


def _without_nulls(value: Any) -> Any:
    """Return the value without null fields, which count as missing."""
    if isinstance(value, Mapping):
        return {str(name): _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _read(parse: Callable[[Mapping[str, Any]], _T], document: Mapping[str, Any], path: str) -> _T:
    """Parse an object. The first error is refused with its field."""
    try:
        return parse(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        problem = FieldError(f"{path}{where}", ErrorKind.TYPE_INVALID, first["input"], first["msg"])
        raise RequestError(problem) from None


def _shown(outcome: Scheduled, fleet: ManagedFleet, *, upstream: bool) -> Answer:
    """Return the schedule in the format of upstream's program: the clusters left after each filter, by name."""
    names = [fleet.name(row) for row in outcome.rows.tolist()]
    chain: list[str] = []
    filters = []
    for one in outcome.filters:
        chain.append(one.name)
        filters.append({"name": ",".join(chain), "filteredClusters": fleet.names_of(one.passed)})
    prioritizers = []
    for scored in outcome.prioritizers:
        given = [True] * len(names) if scored.given is None else scored.given.tolist()
        scores = dict(zip(names, scored.values.tolist(), strict=True))
        listed = {name: scores[name] for name, there in zip(names, given, strict=True) if there}
        prioritizers.append({"name": scored.name, "weight": scored.weight, "scores": listed})
    answer: Answer = {
        "status": {
            "code": outcome.status.code.value,
            "plugin": outcome.status.plugin,
            "message": outcome.status.message,
        },
        "filters": filters,
        "prioritizers": sorted(prioritizers, key=lambda one: (one["name"], one["weight"])),
        "scores": dict(zip(names, outcome.totals.tolist(), strict=True)),
        "decisions": list(outcome.decisions),
        "numOfUnscheduled": outcome.unscheduled,
        "hasRequeueAfter": outcome.requeue_at is not None,
    }
    if not upstream and outcome.requeue_at is not None:
        answer["requeueTime"] = _seconds(outcome.requeue_at)
    return answer


def _seconds(instant: datetime) -> str:
    """Return an instant as RFC 3339, to the second."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
