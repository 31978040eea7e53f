"""Defaults that objects get when they are admitted.

New nodes get the taints of their role. Karmada's policies get the defaults of upstream's webhooks and schema. All
functions are pure, work on plain objects and never change their arguments. The defaults of pods are in
`decide/kubernetes/pod_defaults.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from moorage.decide.kubernetes.taint_keys import CONTROL_PLANE, CONTROL_PLANE_OLD
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.addons import LABEL_PREFIX
from moorage.decide.taints.dialects.kubernetes import CONTROL_PLANE_TAINTS, EXTERNAL_CLOUD
from moorage_schemas.resources.managed import DEFAULT_SET, SET_LABEL
from moorage_schemas.taint import Taint

SYSTEM_ACTOR: Final = "system:admission"
"""The actor of taint edits that admission makes."""

_Object = dict[str, Any]


def role_taints(labels: Mapping[str, Any] | None, present: Iterable[Taint]) -> list[Taint]:
    """The taints that a new control-plane node gets, except those that it already declares.

    A control-plane node has one of the two role labels, with any value. This applies only on creation: if a person
    removes such a taint later, it stays removed.
    """
    if not {CONTROL_PLANE, CONTROL_PLANE_OLD} & set(labels or ()):
        return []
    there = {taint.identity for taint in present}
    return [taint for taint in CONTROL_PLANE_TAINTS if taint.identity not in there]


def declare_external_cloud(node: _Object) -> _Object:
    """Annotate a new node for an external cloud provider, unless it is initialised or has the annotation already."""
    name, external = EXTERNAL_CLOUD
    metadata = node.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if (node.get("spec") or {}).get("providerID") or name in annotations:
        return node
    return {**node, "metadata": {**metadata, "annotations": {**annotations, name: external}}}


def admit_cluster(cluster: _Object) -> _Object:
    """A cluster with its sync mode. The default is Push, because Moorage itself never connects to a cluster."""
    spec = cluster.get("spec") or {}
    return {**cluster, "spec": {**spec, "syncMode": spec.get("syncMode") or "Push"}}


def admit_managed_cluster(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """A managed cluster with its set. As in OCM's webhook, that is `default` unless its label names one.

    The labels with the states of add-ons are maintained elsewhere. They are not stored in the object.
    """
    metadata = part(cluster, "metadata")
    labels = {name: value for name, value in part(metadata, "labels").items() if not name.startswith(LABEL_PREFIX)}
    labels[SET_LABEL] = labels.get(SET_LABEL) or DEFAULT_SET
    return {**cluster, "metadata": {**metadata, "labels": labels}}


def admit_propagation(policy: _Object) -> _Object:
    """A propagation policy with the defaults of upstream's API and webhooks.

    Selectors of a namespaced policy get its namespace. A spread constraint without field and label spreads by cluster,
    over at least one group. Divided replicas are divided by weight. Work leaves a failing cluster gracefully.
    """
    spec: _Object = dict(policy.get("spec") or {})
    for field, value in (("priority", 0), ("preemption", "Never"), ("conflictResolution", "Abort")):
        if spec.get(field) in (None, ""):
            spec[field] = value
    namespace = (policy.get("metadata") or {}).get("namespace")
    if namespace and spec.get("resourceSelectors"):
        spec["resourceSelectors"] = [
            {**selector, "namespace": selector.get("namespace") or namespace} for selector in spec["resourceSelectors"]
        ]
    if spec.get("placement") is not None:
        spec["placement"] = _admit_placement(spec["placement"])
    if (spec.get("failover") or {}).get("cluster") is not None:
        cluster = spec["failover"]["cluster"]
        purge = {"purgeMode": cluster.get("purgeMode") or "Gracefully"}
        spec["failover"] = {**spec["failover"], "cluster": {**cluster, **purge}}
    return {**policy, "spec": spec}


def _admit_placement(placement: Mapping[str, Any]) -> _Object:
    found = dict(placement)
    if found.get("spreadConstraints"):
        found["spreadConstraints"] = [_admit_spread(constraint) for constraint in found["spreadConstraints"]]
    if found.get("replicaScheduling") is not None:
        strategy = {**found["replicaScheduling"]}
        strategy["replicaSchedulingType"] = strategy.get("replicaSchedulingType") or "Divided"
        if strategy["replicaSchedulingType"] == "Divided":
            strategy["replicaDivisionPreference"] = strategy.get("replicaDivisionPreference") or "Weighted"
        found["replicaScheduling"] = strategy
    return found


def _admit_spread(constraint: Mapping[str, Any]) -> _Object:
    found = {**constraint, "minGroups": constraint.get("minGroups") or 1}
    if not found.get("spreadByField") and not found.get("spreadByLabel"):
        found["spreadByField"] = "cluster"
    return found
