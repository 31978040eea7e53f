"""Random requests for the operations of the OCM dialect, more varied than the oracle's. See `generate_vectors.py`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

Request = dict[str, Any]

PREFIX: Final = "cluster.open-cluster-management.io"
NOW: Final = "2026-01-01T00:00:00Z"
SETS: Final = ("alpha", "beta", "gamma", "default", "global")
KEYS: Final = ("maint", "gpu", f"{PREFIX}/unreachable", f"{PREFIX}/unavailable")
EFFECTS: Final = ("NoSelect", "NoSelect", "NoSelectIfNew", "PreferNoSelect", "NoExecute", "")
VALUES: Final = ("", "a", "b")
SECONDS: Final = (-1, 0, 29, 30, 31, 60, 3600, 9999999999)
TIMES: Final = ("2025-12-31T23:59:30Z", "2025-12-31T23:00:00Z", NOW, "2026-01-01T00:01:00Z", "2025-12-31T23:59:29.5Z")
"""Times before the oracle's clock. The oracle marks later times as its own."""
REGIONS: Final = ("eu", "us", "ap")
CLAIMS: Final = ("AWS", "GCP", "Azure")
CPU: Final = ("1", "2", "500m", "3500m", "64", "0", "1k", "0.1")
MEMORY: Final = ("1Gi", "2Gi", "512Mi", "1000M", "3.5Gi", "128974848", "0", "1e9")
EXPRESSIONS: Final = (
    "managedCluster.metadata.name == 'c1'",
    "managedCluster.metadata.labels['region'] in ['eu', 'us']",
    "managedCluster.metadata.labels['none'] == 'x'",
    "has(managedCluster.metadata.labels) && managedCluster.metadata.labels.exists(k, k == 'region')",
    "managedCluster.status.clusterClaims.exists(c, c.name == 'platform' && c.value == 'AWS')",
    "size(managedCluster.metadata.name) > 2 || managedCluster.metadata.name.startsWith('c')",
    "managedCluster.metadata.name.matches('^c1') ? true : 'region' in managedCluster.metadata.labels",
    "managedCluster.spec.taints.all(t, t.effect != 'NoSelect')",
    "managedCluster.spec.hubAcceptsClient || managedCluster.status.clusterClaims[0].value == 'GCP'",
    "quantity(managedCluster.status.capacity.cpu).isGreaterThan(quantity('2'))",
    "managedCluster.scores('demo').exists(s, s.name == 'other' && s.value > 0)",
    "managedCluster.metadata.name",
)
LENGTHS: Final = (1, 2, 3, 0, -1, 1000, "1%", "34%", "50%", "100%", "150%", "0%", "12.5%", "-5%", "abc", "3", "%", "")


def chance(rng: random.Random, share: float) -> bool:
    return rng.random() < share


def taint(rng: random.Random) -> Request:
    made: Request = {"key": rng.choice(KEYS), "effect": rng.choice(EFFECTS)}
    if chance(rng, 0.4):
        made["value"] = rng.choice(VALUES)
    if chance(rng, 0.9):
        made["timeAdded"] = rng.choice(TIMES)
    return made


def toleration(rng: random.Random, *, wrong: bool) -> Request:
    operator = rng.choice(("Exists", "Exists", "Equal", "", "Gt"))
    made: Request = {"key": rng.choice(KEYS), "operator": operator}
    if operator != "Exists" and chance(rng, 0.7):
        made["value"] = rng.choice(VALUES)
    if operator == "Exists" and chance(rng, 0.1):
        del made["key"]
    if chance(rng, 0.4):
        made["effect"] = rng.choice(EFFECTS)
    if chance(rng, 0.5):
        made["tolerationSeconds"] = rng.choice(SECONDS)
    if wrong and chance(rng, 0.3):
        made |= rng.choice(({"operator": "Exists", "value": "a"}, {"key": "", "operator": "Equal"}))
    return made


def requirement(rng: random.Random, key: str, values: Sequence[str], *, wrong: bool) -> Request:
    operator = rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    made: Request = {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        made["values"] = rng.sample(values, rng.randint(1, len(values)))
    if wrong:
        made |= rng.choice(
            ({"operator": "Bogus"}, {"key": "a b"}, {"values": ["x y"]}, {"values": []}, {"operator": "Exists"})
        )
    return made


def marked(rng: random.Random, share: float = 0.12) -> Request:
    """The metadata of an object that may be one that is being deleted."""
    return {"deletionTimestamp": NOW, "finalizers": ["x"]} if chance(rng, share) else {}


def selector(rng: random.Random, *, wrong: bool = False) -> Request:
    if chance(rng, 0.1):
        return {}
    if chance(rng, 0.4):
        return {"matchLabels": {"region": rng.choice(REGIONS)}}
    return {"matchExpressions": [requirement(rng, "region", REGIONS, wrong=wrong)]}


def required_selector(rng: random.Random, *, wrong: bool, expressions: bool) -> Request:
    made: Request = {}
    if chance(rng, 0.7):
        made["labelSelector"] = selector(rng, wrong=wrong)
    if chance(rng, 0.4):
        made["claimSelector"] = {"matchExpressions": [requirement(rng, "platform", CLAIMS, wrong=False)]}
    if expressions and chance(rng, 0.3):
        made["celSelector"] = {"celExpressions": rng.sample(EXPRESSIONS, rng.randint(1, 2))}
    return made


def cluster(rng: random.Random, name: str) -> Request:
    labels: Request = {"region": rng.choice(REGIONS)}
    if chance(rng, 0.8):
        labels[f"{PREFIX}/clusterset"] = rng.choice((*SETS[:3], *SETS, "nosuch", ""))
    metadata: Request = {"name": name, "labels": labels}
    metadata |= marked(rng, 0.05)
    spec: Request = {}
    if chance(rng, 0.5):
        spec["taints"] = [taint(rng) for _ in range(rng.randint(0, 3))]
    status: Request = {}
    if chance(rng, 0.5):
        status["clusterClaims"] = [{"name": "platform", "value": rng.choice(CLAIMS)}]
    if chance(rng, 0.6):
        for part, share in (("allocatable", 0.85), ("capacity", 0.9)):
            amounts = (("cpu", CPU), ("memory", MEMORY))
            status[part] = {kind: rng.choice(some) for kind, some in amounts if chance(rng, share)}
    return {"metadata": metadata, "spec": spec, "status": status}


def prioritizer(rng: random.Random, *, wrong: bool) -> Request:
    weight = rng.choice((1, 1, 2, 10, 0, -1, -10))
    if wrong:
        coordinate: Request = rng.choice(
            ({"type": "BuiltIn", "builtIn": "Spread"}, {"type": "AddOn"}, {"type": "", "builtIn": "Balance"})
        )
        return rng.choice(({"scoreCoordinate": coordinate, "weight": 1}, {"weight": 1}))
    if chance(rng, 0.35):
        score = rng.choice(("demo", "other", "none"))
        coordinate = {"type": rng.choice(("AddOn", "AddOn", "")), "addOn": {"resourceName": "demo", "scoreName": score}}
    else:
        names = ("Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory")
        coordinate = {"type": "BuiltIn", "builtIn": rng.choice(names)}
    made: Request = {"scoreCoordinate": coordinate, "weight": weight}
    return made if chance(rng, 0.95) else {"scoreCoordinate": coordinate}


def policy_of(rng: random.Random, wrong: str) -> Request:
    policy: Request = {}
    if chance(rng, 0.7):
        policy["mode"] = rng.choice(("", "Additive", "Exact"))
    if wrong == "mode":
        policy["mode"] = "exact"
    if chance(rng, 0.7):
        policy["configurations"] = [prioritizer(rng, wrong=False) for _ in range(rng.randint(0, 3))]
    if wrong == "policy":
        policy["configurations"] = [prioritizer(rng, wrong=True)]
    return policy


def strategy_of(rng: random.Random, wrong: str) -> Request:
    group: Request = {}
    if chance(rng, 0.8) or wrong == "length":
        group["clustersPerDecisionGroup"] = rng.choice(LENGTHS if wrong == "length" else LENGTHS[:14])
    if chance(rng, 0.6) or wrong == "group":
        group["decisionGroups"] = [
            {
                "groupName": rng.choice(("canary", "rest", "")),
                "groupClusterSelector": required_selector(
                    rng, wrong=wrong == "group" and chance(rng, 0.6), expressions=False
                ),
            }
            for _ in range(rng.randint(1, 3))
        ]
    return {"groupStrategy": group}


def spec_of(rng: random.Random, count: int) -> Request:
    # There is at most one error, because upstream reports errors in no fixed order.
    wrong = rng.choice(("predicate", "toleration", "policy", "mode", "length", "group", *[""] * 12))
    spec: Request = {}
    if chance(rng, 0.7):
        spec["numberOfClusters"] = rng.randint(0, count + 2) if chance(rng, 0.98) else -1
    if chance(rng, 0.3):
        spec["clusterSets"] = rng.sample((*SETS, "nosuch"), rng.randint(0, 3))
    if chance(rng, 0.3) or wrong == "predicate":
        bad = wrong == "predicate"
        selectors = [required_selector(rng, wrong=bad and not i, expressions=not bad) for i in range(rng.randint(1, 2))]
        spec["predicates"] = [{"requiredClusterSelector": one} for one in selectors]
    if chance(rng, 0.8):
        spec["tolerations"] = [toleration(rng, wrong=wrong == "toleration") for _ in range(rng.randint(0, 5))]
    if policy := policy_of(rng, wrong):
        spec["prioritizerPolicy"] = policy
    if chance(rng, 0.5) or wrong in {"length", "group"}:
        spec["decisionStrategy"] = strategy_of(rng, wrong)
    return spec


def decision(rng: random.Random, namespace: str, placement: str, number: int, names: Sequence[str]) -> Request:
    labels: Request = {f"{PREFIX}/placement": placement}
    if chance(rng, 0.5):
        labels |= {
            f"{PREFIX}/decision-group-name": rng.choice(("", "canary")),
            f"{PREFIX}/decision-group-index": str(number - 1),
        }
    chosen = [name for name in (*names, "gone") if chance(rng, 0.35)]
    return {
        "metadata": {"namespace": namespace, "name": f"{placement}-decision-{number}", "labels": labels, **marked(rng)},
        "status": {
            "decisions": [
                {"clusterName": name, "reason": "" if chance(rng, 0.97) else "old"} for name in sorted(chosen)
            ]
        },
    }


def decisions(rng: random.Random, names: Sequence[str]) -> list[Request]:
    made = []
    if chance(rng, 0.6):
        made += [decision(rng, "team", "web", number, names) for number in range(1, rng.randint(2, 4))]
    for placement in rng.sample(("p1", "p2", "p3"), rng.randint(0, 3)):
        made.append(decision(rng, rng.choice(("team", "other")), placement, 1, names))
    if chance(rng, 0.1):
        made.append(decision(rng, "other", "web", 1, names))
    return made


def score(rng: random.Random, name: str, *, expires: bool) -> Request:
    status: Request = {"scores": [{"name": one, "value": rng.randint(-100, 100)} for one in ("demo", "other")]}
    if chance(rng, 0.1):
        status["scores"].append({"name": "demo", "value": rng.choice((7, 5000, -5000))})
    if chance(rng, 0.3):
        status["validUntil"] = "2025-12-31T23:59:59Z" if expires else rng.choice((NOW, "2026-01-01T00:00:01Z"))
    return {"metadata": {"namespace": name, "name": "demo", **marked(rng)}, "status": status}


def cluster_set(rng: random.Random, name: str, *, wrong: bool) -> Request:
    kind = rng.choice(("ExclusiveClusterSetLabel", "ExclusiveClusterSetLabel", "", "LabelSelector", "LabelSelector"))
    made: Request = {"selectorType": kind}
    if kind == "LabelSelector" and chance(rng, 0.9):
        made["labelSelector"] = selector(rng)
    if wrong:
        made = rng.choice(
            (
                {"selectorType": "LegacyClusterSetLabel"},
                {"selectorType": "Bogus"},
                {
                    "selectorType": "LabelSelector",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "?"}]},
                },
            )
        )
    spec: Request = {} if kind == "" and not wrong and chance(rng, 0.5) else {"clusterSelector": made}
    return {"metadata": {"name": name, **marked(rng)}, "spec": spec}


def sets_and_bindings(rng: random.Random) -> Request:
    wrong = rng.choice((*SETS[:3], *[""] * 12))
    bindings = []
    for name in (*SETS, "nosuch"):
        if chance(rng, 0.6):
            namespace = "team" if chance(rng, 0.85) else "other"
            bound = name if chance(rng, 0.95) else "alpha"
            metadata = {"namespace": namespace, "name": name, **marked(rng)}
            bindings.append({"metadata": metadata, "spec": {"clusterSet": bound}})
    sets = [cluster_set(rng, name, wrong=name == wrong) for name in SETS if chance(rng, 0.75)]
    return {"clusterSets": sets, "bindings": bindings}


def schedule(rng: random.Random) -> Request:
    count = rng.randint(1, 9) if chance(rng, 0.97) else rng.randint(101, 230)
    names = rng.sample([*(f"c{i}" for i in range(1, 240)), "Z", "a-b", "a"], count)
    metadata: Request = {"namespace": "team", "name": "web"}
    if chance(rng, 0.04):
        metadata["annotations"] = {f"{PREFIX}/experimental-scheduling-disable": rng.choice(("true", "false"))}
    metadata |= marked(rng, 0.02)
    placement: Request = {"metadata": metadata, "spec": spec_of(rng, count)}
    request: Request = {
        "op": "ocm_schedule",
        "now": NOW,
        "level": "scheduler",
        "clusters": [cluster(rng, name) for name in names],
        "placement": placement,
        "decisions": decisions(rng, names),
    }
    # Upstream reports warnings of several prioritizers, and its controller of several clusters, in no fixed order.
    controller = chance(rng, 0.6)
    policy = placement["spec"].get("prioritizerPolicy", {}).get("configurations", [])
    expires = sum("addOn" in (one.get("scoreCoordinate") or {}) for one in policy) < 2
    request["scores"] = [
        score(rng, name, expires=expires and (not controller or name == names[0])) for name in names if chance(rng, 0.7)
    ]
    if controller:
        request |= {"level": "controller", **sets_and_bindings(rng)}
        if chance(rng, 0.2):
            placement["status"] = {
                "conditions": [
                    {
                        "type": rng.choice(("PlacementSatisfied", "PlacementMisconfigured", "Other")),
                        "status": "True",
                        "reason": "Old",
                        "message": "old",
                        "lastTransitionTime": TIMES[0],
                    }
                ]
            }
    return request


def taint_controller(rng: random.Random) -> Request:
    made: Request = {"metadata": {"name": "c1"}, "spec": {"taints": [taint(rng) for _ in range(rng.randint(0, 4))]}}
    made["metadata"] |= marked(rng)
    kinds = ("ManagedClusterConditionAvailable", "ManagedClusterConditionAvailable", "ManagedClusterJoined", "Other")
    made["status"] = {
        "conditions": [
            {"type": rng.choice(kinds), "status": rng.choice(("True", "False", "Unknown", "")), "reason": "x"}
            for _ in range(rng.randint(0, 2))
        ]
    }
    return {"op": "ocm_taint_controller", "cluster": made}


def taint_webhook(rng: random.Random) -> Request:
    old = [taint(rng) for _ in range(rng.randint(0, 4))]
    new = []
    for one in old:
        change = rng.randint(0, 9)
        if change == 0:
            continue
        if change == 1:
            one = one | {"value": "c"}  # noqa: PLW2901 - the changed one
        if change in {1, 2, 3}:
            one = {name: value for name, value in one.items() if name != "timeAdded"}  # noqa: PLW2901 - as above
        if change == 4:
            one = one | {"timeAdded": rng.choice(TIMES)}  # noqa: PLW2901 - as above
        new.append(one)
    new += [taint(rng) for _ in range(rng.choice((0, 0, 1)))]
    rng.shuffle(new)
    request: Request = {
        "op": "ocm_taint_webhook",
        "cluster": {"metadata": {"name": "c1", **marked(rng)}, "spec": {"taints": new}},
    }
    if chance(rng, 0.8):
        request["old"] = {"spec": {"taints": old}}
    return request
