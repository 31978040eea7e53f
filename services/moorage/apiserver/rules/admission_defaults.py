"""Defaults that objects get when they are admitted.

New nodes get the taints of their role. All functions are pure, work on plain objects and never change their arguments.
The defaults of pods are in `decide/kubernetes/pod_defaults.py`, those of Karmada's kinds in `field_defaults.yaml`.
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
    """Return the taints that a new control-plane node gets, except those that it already declares.

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


def admit_managed_cluster(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return a managed cluster with its set. As in OCM's webhook, that is `default` unless its label names one.

    The labels with the states of add-ons are maintained elsewhere. They are not stored in the object.
    """
    metadata = part(cluster, "metadata")
    labels = {name: value for name, value in part(metadata, "labels").items() if not name.startswith(LABEL_PREFIX)}
    labels[SET_LABEL] = labels.get(SET_LABEL) or DEFAULT_SET
    return {**cluster, "metadata": {**metadata, "labels": labels}}
