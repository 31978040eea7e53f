"""Workloads are bound only where they may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.seeded.checker.desired_taints import AVAILABLE, ROWS, resource_key, uid_of
from tests.chaos.seeded.checker.matching import matches, selects, untolerated
from tests.chaos.seeded.checker.parsed_history import Json, Run, Seen, instant, name_of, waits_for_its_deployer
from tests.chaos.seeded.checker.violations import Violation

_SET_LABEL = "cluster.open-cluster-management.io/clusterset"
_PLACEMENT_LABEL = "cluster.open-cluster-management.io/placement"


def bare_work_is_in_one_place(run: Run) -> Iterator[Violation]:
    """A pod is bound to one node at a time.

    A binding that replaces another one is written in the same transaction as the end of that: the two may be readable
    in any order, so their decisions' times (but for twice the skew) are compared. What policies divide over clusters,
    and OCM's placements, may be in several places.
    """
    live: dict[str, dict[str, Seen]] = {}
    suspects: list[tuple[Seen, Seen]] = []
    for seen in run.of("bindings"):
        workload, _, target = seen.key.partition("|")
        if not workload.startswith("Pod/"):
            continue
        there = live.setdefault(workload, {})
        if seen.gone:
            there.pop(target, None)
            continue
        suspects += [(other, seen) for place, other in there.items() if place != target]
        there[target] = seen
    for before, after in suspects:
        ends = [one for one in run.records("bindings", before.key) if one.gone and one.order > before.order]
        if not ends or ends[0].decided > after.decided + 2 * run.skew:
            yield Violation("bare_work_is_in_one_place", after.where, f"is bound as {before.where}, too")


def bindings_tolerate(run: Run) -> Iterator[Violation]:
    """Who is bound to a node or a Karmada cluster anew tolerates its NoSchedule and NoExecute taints.

    By the taints that were readable when that was decided (`Allowances.view` before it at the earliest); unless the
    person has named the node, and no scheduler was asked. Taints of an earlier target of that name do not count.
    """
    if not run.history.exact:
        return
    for _, records in run.keys("bindings"):
        before: Seen | None = None
        for seen in records:
            # One that stood until now is only changed: NoSchedule drives nobody out.
            fresh = not seen.gone and (before is None or before.gone)
            before = seen
            target = seen.key.partition("|")[2]
            if not fresh or seen.data.get("bypassed") or seen.source != "moorage/placement":
                continue
            if target.startswith("ManagedCluster/"):
                continue
            tolerations = seen.data.get("tolerations") or ()
            declared = run.states("resources", resource_key(target), seen, within=run.allowances.view)
            uids = {uid_of(one) for one in declared if one is not None and not one.gone} or {""}
            tainted = run.states("taints", target, seen, within=run.allowances.view)
            # Each pair of what could be read of the two: one that lets it there is enough.
            found = [_in_the_way(one, uid, tolerations) for uid in uids for one in tainted]
            if found and all(found):
                yield Violation("bindings_tolerate", seen.where, f"does not tolerate {found[0][0]['key']}")


def _in_the_way(tainted: Seen | None, uid: str, tolerations: Sequence[Json]) -> list[Json]:
    """The taints that keep a workload from a target of this uid."""
    if tainted is None or tainted.data.get("targetUid", "") not in {"", uid}:
        return []
    return untolerated(tainted.data.get("taints") or (), tolerations, ("NoSchedule", "NoExecute"))


def claimed_work_makes_no_pods(run: Run) -> Iterator[Violation]:
    """What a policy places on clusters makes no pods on nodes, when the policy was there before it was declared.

    Only policies that name it (or its kind) are looked at, and only pods that were bound while the policy stood.
    """
    if not run.history.exact:
        return
    policies = [(key, records) for key, records in run.keys("resources") if key.startswith("PropagationPolicy/")]
    for key, bound in run.keys("bindings") if policies else ():
        for seen in bound:
            if not key.startswith("Pod/") or seen.gone or seen.source != "moorage/placement":
                continue
            owner = name_of(seen.data["owner"])
            lives = [one for one in run.records("resources", owner) if run.precedes(one, seen)]
            ends = [number for number, one in enumerate(lives) if one.gone]
            begun = lives[ends[-1] + 1 if ends else 0 :][:1]
            for policy, records in policies if begun and not owner.startswith("Pod/") else ():
                before = [one for one in records if one.entry.committed < begun[0].entry.appended]
                since = [one for one in records if one not in before and one.order < seen.order]
                if before and not since and _claims(before[-1], policy, owner):
                    yield Violation("claimed_work_makes_no_pods", seen.where, f"{policy} was there before {owner}")


def _claims(policy: Seen, key: str, owner: str) -> bool:
    """Whether a policy names a workload, or its kind."""
    if policy.gone or key.split("/")[1] != owner.split("/")[1]:
        return False
    selectors = (policy.data["object"].get("spec") or {}).get("resourceSelectors") or ()
    kind, _, name = owner.split("/")
    return any(
        one.get("kind") == kind and one.get("name") in {None, "", name} and one.get("labelSelector") is None
        for one in selectors
    )


def bindings_are_what_was_decided(run: Run) -> Iterator[Violation]:
    """After quiet each pod that is Placed is bound to that node with that generation, and no other pod is bound."""
    if not (run.history.quiet and run.runs("placement")):
        return
    name = "bindings_are_what_was_decided"
    decided = {
        f"{key}|{name_of(seen.data['target'])}": seen
        for key, seen in run.table("placements").items()
        if key.startswith("Pod/") and seen.data.get("state") == "Placed" and seen.source == "moorage/placement"
    }
    bound = {
        key: seen
        for key, seen in run.table("bindings").items()
        if key.startswith("Pod/") and seen.source == "moorage/placement"
    }
    for key in sorted(decided.keys() - bound.keys()):
        yield Violation(name, decided[key].where, "is not bound")
    for key, seen in sorted(bound.items()):
        if key not in decided:
            yield Violation(name, seen.where, "was not decided on")
        elif decided[key].data["bindingGeneration"] != seen.data["generation"]:
            generation = decided[key].data["bindingGeneration"]
            yield Violation(name, seen.where, f"has another generation than the decision, {generation}")


def nobody_leaves_unasked(run: Run) -> Iterator[Violation]:
    """The binding of a bare pod ends only with its eviction, with the pod, or with its node.

    The eviction is that of this very binding: of its generation, and of the pod's own uid.
    """
    if not run.history.exact:
        return
    for key, records in run.keys("bindings"):
        workload, _, target = key.partition("|")
        last: Seen | None = None
        for seen in records:
            before, last = last, None if seen.gone else seen
            if before is None or not seen.gone or seen.source != "moorage/placement":
                continue
            if not workload.startswith("Pod/") or name_of(before.data["owner"]) != workload:
                continue
            uid, generation = str(before.data.get("uid", "")), before.data["generation"]
            asked = any(
                one.data.get("state") == "Requested" and one.data.get("workloadUid", "") in {"", uid}
                for one in run.records("evictions", f"{key}|{generation}")
                if one.order < seen.order
            )
            gone = any(
                one.gone or (one.key == workload and uid_of(one) != uid)
                for about in (workload, resource_key(target))
                for one in run.records("resources", about)
                if one.order < seen.order and one.order > _first(run, workload, uid)
            )
            nodes = [one for one in run.records("resources", resource_key(target)) if one.order < seen.order]
            if not (asked or gone or (nodes and nodes[-1].gone)):
                yield Violation("nobody_leaves_unasked", seen.where, "nothing asked for the end of its binding")


def _first(run: Run, workload: str, uid: str) -> int:
    """The order of the record with which a pod was declared."""
    return next((one.order for one in run.records("resources", workload) if not one.gone and uid_of(one) == uid), 0)


def requested_work_has_left(run: Run) -> Iterator[Violation]:
    """After quiet no pod is bound where its eviction was requested, unless its deployer has not acknowledged that."""
    if not (run.history.quiet and run.runs("placement")):
        return
    bound = run.table("bindings")
    for key, task in run.table("evictions").items():
        place, _, generation = key.rpartition("|")
        if task.data["state"] != "Requested" or not key.startswith("Pod/") or place not in bound:
            continue
        if waits_for_its_deployer(task):
            continue
        if bound[place].data["generation"] == int(generation):
            yield Violation("requested_work_has_left", task.where, "is still bound")


def selected_clusters_are_tolerated(run: Run) -> Iterator[Violation]:
    """After quiet no PlacementDecision names a cluster with a NoSelect taint that its Placement does not tolerate."""
    if not (run.history.quiet and run.runs("placement")):
        return
    resources, tainted = run.table("resources"), run.table("taints")
    for placement, decision in _decisions(run):
        if placement not in resources:
            continue
        for cluster in decision.data.get("clusters") or ():
            found = tainted.get(f"ManagedCluster/{cluster}")
            if _kept_away(run, found, resources[placement], early=-run.allowances.lateness):
                yield Violation("selected_clusters_are_tolerated", decision.where, f"{cluster} is not tolerated")


def available_clusters_are_selected(run: Run) -> Iterator[Violation]:
    """After quiet a Placement that takes every cluster of its namespace's sets has all that no taint keeps away.

    A cluster that is reported available and of which nothing else is known is not kept away.
    """
    if not (run.history.quiet and run.runs("placement")):
        return
    resources, tainted = run.table("resources"), run.table("taints")
    selected: dict[str, set[str]] = {}
    for placement, decision in _decisions(run):
        selected.setdefault(placement, set()).update(decision.data.get("clusters") or ())
    for placement, resource in resources.items():
        if not placement.startswith("Placement/") or not _takes_all(resource):
            continue
        for cluster in sorted(_members(resources, placement.split("/")[1]) - selected.get(placement, set())):
            target = f"ManagedCluster/{cluster}"
            if target not in tainted:
                away = not _is_available(run, target, resources)
            else:
                away = _kept_away(run, tainted[target], resource, early=run.allowances.lateness, new=True)
            if not away:
                yield Violation("available_clusters_are_selected", resource.where, f"{cluster} is left out")


def _decisions(run: Run) -> Iterator[tuple[str, Seen]]:
    """The PlacementDecisions at the end, each with the key of its Placement."""
    for key, decision in run.table("placements").items():
        kind, namespace, _ = key.split("/")
        if kind == "PlacementDecision":
            name = (decision.data.get("labels") or {}).get(_PLACEMENT_LABEL, "")
            yield f"Placement/{namespace}/{name}", decision


def _kept_away(run: Run, tainted: Seen | None, placement: Seen, *, early: float, new: bool = False) -> bool:
    """Whether a taint keeps a cluster out of a placement at the end, a toleration ending so much earlier."""
    tolerations = (placement.data["object"].get("spec") or {}).get("tolerations") or ()
    for taint in (tainted.data.get("taints") or ()) if tainted is not None else ():
        if taint["effect"] not in ({"NoSelect", "NoSelectIfNew"} if new else {"NoSelect"}):
            continue
        first = next((one for one in tolerations if matches(one, taint)), None)
        seconds = first.get("tolerationSeconds") if first is not None else None
        if first is None or (
            seconds is not None and instant(taint["timeAdded"]) + seconds <= run.history.ended + early
        ):
            return True
    return False


def _takes_all(placement: Seen) -> bool:
    spec = placement.data["object"].get("spec") or {}
    return not any(spec.get(name) for name in ("numberOfClusters", "predicates", "clusterSets", "tolerations")) and (
        spec.get("numberOfClusters") is None
    )


def _is_available(run: Run, target: str, resources: Mapping[str, Seen]) -> bool:
    records = run.records("conditions", f"{target}|{AVAILABLE}")
    resource = resources.get(target.replace("/", "//", 1))
    if not records or records[-1].gone or resource is None:
        return False
    row = next(iter(ROWS["ManagedCluster"]))
    same = records[-1].data.get("targetUid", "") in {"", uid_of(resource)}
    return same and row.condition == AVAILABLE and records[-1].data.get("status") == "True"


def _members(resources: Mapping[str, Seen], namespace: str) -> set[str]:
    """The clusters of the sets that are bound to a namespace."""
    found: set[str] = set()
    for key, binding in resources.items():
        kind, place, name = key.split("/")
        if kind == "ManagedClusterSetBinding" and place == namespace:
            bound = (binding.data["object"].get("spec") or {}).get("clusterSet") or name
            declared = resources.get(f"ManagedClusterSet//{bound}")
            found |= {
                other.rpartition("/")[2]
                for other, resource in resources.items()
                if other.startswith("ManagedCluster//") and _in_set(bound, declared, resource)
            }
    return found


def _in_set(name: str, declared: Seen | None, cluster: Seen) -> bool:
    """Whether a cluster is in a set: by its label, or by the set's own selector; two sets are built in."""
    labels = (cluster.data["object"].get("metadata") or {}).get("labels") or {}
    selector = ((declared.data["object"].get("spec") or {}) if declared is not None else {}).get(
        "clusterSelector"
    ) or {}
    if selector.get("selectorType") == "LabelSelector":
        return selects(selector.get("labelSelector"), labels)
    if name == "global":
        return True
    return (declared is not None or name == "default") and labels.get(_SET_LABEL, "default") == name
