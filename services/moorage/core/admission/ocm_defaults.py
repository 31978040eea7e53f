"""Defaults that admission sets on Open Cluster Management's objects before they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.core.apimachinery.unstructured import part
from moorage.core.taints.desired.addons import LABEL_PREFIX
from moorage_schemas.resources.managed import DEFAULT_SET, SET_LABEL


def admit_managed_cluster(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """A managed cluster with its set. As in OCM's webhook, that is `default` unless its label names one.

    The labels with the states of add-ons are maintained elsewhere. They are not stored in the object.
    """
    metadata = part(cluster, "metadata")
    labels = {name: value for name, value in part(metadata, "labels").items() if not name.startswith(LABEL_PREFIX)}
    labels[SET_LABEL] = labels.get(SET_LABEL) or DEFAULT_SET
    return {**cluster, "metadata": {**metadata, "labels": labels}}
