"""The `moorage eval` operations of the Karmada dialect: `ctp`, `karmada_evict`, `karmada_filter`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from moorage.conformance.request_fields import (
    OBJECT,
    REQUIREMENT,
    Answer,
    RequestError,
    RequestFields,
    taint_json,
    toleration_json,
)
from moorage.decide.kubernetes.field_errors import duplicate, required
from moorage.decide.kubernetes.quantities import INT64_MAX, NANOSECONDS, wrapped
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts
from moorage.decide.taints.desired.from_conditions import belongs_to_state
from moorage.decide.taints.desired.taint_policies import TaintingPolicy, TargetFacts, acts, in_order
from moorage.decide.taints.dialects.karmada import KARMADA
from moorage.decide.taints.eviction_verdict import Tolerated, deadline_of, taint_text
from moorage.decide.taints.matching import first_match, tolerates, untolerated
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.meta import LabelSelector, SelectorRequirement
from moorage_schemas.resources.policies import ClusterAffinity, FieldSelector, MatchCondition
from moorage_schemas.taint import Taint

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DEFAULT_NAME: Final = "member"
"""The name of a cluster that has none."""

_METADATA: Final = ("name", "labels", "creationTimestamp", "annotations")
_CLUSTER_SPEC: Final = ("provider", "region", "zone", "zones", "taints")
_POLICY_SPEC: Final = ("targetClusters", "addOnConditions", "removeOnConditions", "taints")
_AFFINITY: Final = ("clusterNames", "exclude", "labelSelector", "fieldSelector")
_MATCH: Final = ("conditionType", "operator", "statusValues")

_A_CLUSTER: Final = {"kind": TargetKind.CLUSTER.value}

_Marked = tuple[Taint, bool]
"""A taint, and whether the operation added it."""


def ctp(fields: RequestFields) -> Answer:
    """Return a cluster's taints after its ClusterTaintPolicies were applied."""
    cluster, taints, statuses = _cluster(fields)
    before: list[_Marked] = [(taint, False) for taint in taints]
    after = list(before)
    added = False
    for act in acts(_policies(fields), TargetFacts(TargetKind.CLUSTER.value, cluster), statuses):
        for taint in act.policy.taints:
            if not fields.upstream and belongs_to_state(_A_CLUSTER, taint.key, taint.effect, taint.value):
                continue
            place = next((i for i, (there, _) in enumerate(after) if there.identity == taint.identity), None)
            if act.adds and place is None:
                after.append((taint, True))
                added = True
            elif not act.adds and place is not None:
                del after[place]
    if not fields.upstream:
        # A taint that was removed and added again with its value counts as never removed.
        values = {taint.identity: taint.value for taint, _ in after}
        stayed = [mark for mark in before if values.get(mark[0].identity) == mark[0].value]
        again = {taint.identity for taint, _ in stayed}
        places = {taint.identity: i for i, (taint, _) in enumerate(before)}
        new = [mark for mark in after if mark[0].identity not in again]
        after = sorted([*stayed, *new], key=lambda mark: places.get(mark[0].identity, len(places)))
    patched = after != before
    if fields.upstream and not before and not after:
        # An emptied list differs from the absent list at the start, so upstream writes it.
        patched = added
    said = f"Normal TaintClusterSucceed Update Cluster({cluster.name}) with taints({_message(after)}) succeed"
    return {
        "taints": [taint_json(taint, fresh=fresh) for taint, fresh in after],
        "patched": patched,
        "events": [said] if patched else [],
    }


def _message(taints: list[_Marked]) -> str:
    if not taints:
        return "cluster now does not have taints"
    listed = (
        f"{{Key:{taint.key},{f'Value:{taint.value},' if taint.value else ''}Effect:{taint.effect}}}"
        for taint, _ in taints
    )
    return f"cluster now has taints([{','.join(listed)}])"


def _cluster(fields: RequestFields) -> tuple[ClusterFacts, list[Taint], dict[str, list[str]]]:
    """Return the cluster's facts, taints and statuses by condition. Values beside the cluster override those in it."""
    whole = fields.inner("cluster", OBJECT, closed=False)
    metadata = whole.inner("metadata", _METADATA, closed=False)
    spec = whole.inner("spec", _CLUSTER_SPEC, closed=False)
    status = whole.inner("status", ("conditions",), closed=False)
    zones, zone = spec.texts("zones"), spec.text("zone")
    if not zones and zone and not fields.upstream:
        zones = [zone]
    cluster = ClusterFacts(
        name=metadata.text("name") or _DEFAULT_NAME,
        labels=(fields if fields.has("labels") else metadata).mapping("labels"),
        provider=spec.text("provider"),
        region=spec.text("region"),
        zones=tuple(zones),
    )
    taints = (fields if fields.has("taints") else spec).taints("taints")
    statuses: dict[str, list[str]] = {}
    for name, said in (fields if fields.has("conditions") else status).statuses("conditions"):
        statuses.setdefault(name, []).append(said)
    return cluster, taints, statuses


def _policies(fields: RequestFields) -> tuple[TaintingPolicy, ...]:
    def read(policy: RequestFields) -> TaintingPolicy:
        metadata = policy.inner("metadata", _METADATA, closed=False)
        metadata.need("name")
        spec = policy.inner("spec", _POLICY_SPEC)
        return TaintingPolicy(
            name=metadata.text("name"),
            created=metadata.time("creationTimestamp"),
            affinity=_affinity(spec),
            add=tuple(spec.objects("addOnConditions", _MATCH, _match)),
            remove=tuple(spec.objects("removeOnConditions", _MATCH, _match)),
            taints=tuple(spec.taints("taints")),
        )

    policies = fields.objects("policies", OBJECT, read)
    names: set[str] = set()
    for i, policy in enumerate(policies):
        if policy.name in names:
            raise RequestError(duplicate(f"policies[{i}].metadata.name", policy.name))
        names.add(policy.name)
    return in_order(policies)


def _match(match: RequestFields) -> MatchCondition:
    match.need("conditionType")
    match.need("operator")
    return MatchCondition(
        condition_type=match.text("conditionType"),
        operator=match.text("operator"),
        status_values=match.texts("statusValues"),
    )


def _affinity(spec: RequestFields) -> ClusterAffinity | None:
    if not spec.has("targetClusters"):
        return None
    affinity = spec.inner("targetClusters", _AFFINITY)
    labels = affinity.inner("labelSelector", ("matchLabels", "matchExpressions"))
    selected = affinity.inner("fieldSelector", ("matchExpressions",))
    return ClusterAffinity(
        cluster_names=affinity.texts("clusterNames"),
        exclude=affinity.texts("exclude"),
        label_selector=LabelSelector(
            match_labels=labels.mapping("matchLabels"), match_expressions=_requirements(labels)
        )
        if affinity.has("labelSelector")
        else None,
        field_selector=FieldSelector(match_expressions=_requirements(selected))
        if affinity.has("fieldSelector")
        else None,
    )


def _requirements(fields: RequestFields) -> list[SelectorRequirement]:
    def read(requirement: RequestFields) -> SelectorRequirement:
        requirement.need("key")
        requirement.need("operator")
        return SelectorRequirement(
            key=requirement.text("key"),
            operator=requirement.text("operator"),
            values=requirement.texts("values") if requirement.has("values") else None,
        )

    return fields.objects("matchExpressions", REQUIREMENT, read)


def _matching(fields: RequestFields) -> Mapping[str, bool]:
    """Return how tolerations match. Upstream's cluster controllers never support comparison operators."""
    asked = fields.flag("comparisonOperators", default=True)
    return {"comparison": asked and not fields.upstream, "strict": not fields.upstream}


def karmada_evict(fields: RequestFields) -> Answer:
    """Return whether and when work leaves a cluster."""
    taints, tolerations = fields.taints("taints", cut=False), fields.tolerations("tolerations")
    now, how = fields.time("now", cut=False), _matching(fields)
    pairs: list[Tolerated] = []
    for taint in taints:
        if taint.effect not in KARMADA.evicting:
            continue
        toleration = first_match(taint, tolerations, **how)
        if toleration is None:
            return {"evict": "now", "seconds": 0, "allTolerated": False, "used": []}
        pairs.append(Tolerated(taint, toleration))
    left = _left_as_upstream(pairs, now) if fields.upstream else _left(pairs, now)
    answer: Answer = {"allTolerated": True, "used": [toleration_json(pair.toleration) for pair in pairs]}
    if left is None:
        return {"evict": "never", "seconds": -1, **answer}
    whole, rest = divmod(left, NANOSECONDS)
    return {"evict": "after" if left else "now", "seconds": whole + rest / NANOSECONDS if rest else whole, **answer}


def _needed(now: datetime | None) -> datetime:
    if now is None:
        raise RequestError(required("now", "a tolerated time is left from here on"))
    return now


def _nanoseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


def _left(pairs: list[Tolerated], now: datetime | None) -> int | None:
    """Return the nanoseconds until the earliest deadline, which the matching tolerations set. None means never.

    `now` replaces a missing `timeAdded`.
    """
    limited = [pair for pair in pairs if pair.toleration.toleration_seconds is not None]
    if any((pair.toleration.toleration_seconds or 0) <= 0 for pair in limited):
        return 0
    if not limited:
        return None
    now = _needed(now)
    deadlines = [deadline for pair in limited if (deadline := deadline_of(pair, seen_at=now)) is not None]
    return max(min(map(_nanoseconds, deadlines)) - _nanoseconds(now), 0) if deadlines else None


def _left_as_upstream(pairs: list[Tolerated], now: datetime | None) -> int | None:
    """Return the same as upstream: the seconds of a used toleration count for every taint that it matches."""
    ends = [
        _nanoseconds(added) + wrapped(seconds * NANOSECONDS)
        for toleration in (pair.toleration for pair in pairs)
        if (seconds := toleration.toleration_seconds) is not None
        for taint in (pair.taint for pair in pairs)
        if (added := taint.time_added) is not None and tolerates(toleration, taint, comparison=False, strict=False)
    ]
    return min(max(min(ends) - _nanoseconds(_needed(now)), 0), INT64_MAX) if ends else None


def karmada_filter(fields: RequestFields) -> Answer:
    """Return whether new work may go to a cluster. A cluster that has the work already always fits."""
    taints, tolerations = fields.taints("taints"), fields.tolerations("tolerations")
    fields.time("now")
    left = untolerated(taints, tolerations, KARMADA.filtering, **_matching(fields))
    if not left or fields.flag("alreadyScheduled", default=False):
        return {"fits": True}
    return {"fits": False, "reason": f"cluster(s) had untolerated taint {{{taint_text(left[0])}}}"}
