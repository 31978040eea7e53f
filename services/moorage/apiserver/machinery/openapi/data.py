"""The files of data, with Moorage's additions. Each is read when it is first used.

Added fields that Moorage reads are those of other releases, or of named deviations. Fields of `status` are those that
Moorage shows: a client may send back what it has read. They have no numbers in protobuf, so they are not sent there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

Data = dict[str, Any]


@cache
def native() -> Data:
    """Return the kinds built into an API server, by group, version and kind, and the definitions that they use."""
    found = _read("native")
    definitions = found["definitions"]
    for name, more in DEFINITIONS.items():
        definitions[name]["fields"].update(more(definitions))
    for name, texts in _read("descriptions").items():
        for field, text in texts.items() if name in definitions else ():
            (definitions[name]["fields"][field] if field else definitions[name])["description"] = text
    for definition in definitions.values():
        for said in definition.get("fields", {}).values():
            if values := said.get("enum"):
                said["description"] = _with_values(said.get("description", ""), values)
    return found


def _with_values(text: str, values: list[str]) -> str:
    """Return a description that names the values that a field may have, as upstream's does."""
    listed = "".join(f'\n - `"{one}"`' for one in values)
    return f"{text}\n\nPossible enum values:{listed}".strip()


@cache
def custom() -> Data:
    """Return the custom resources, by group, version and kind."""
    found = _read("custom")
    kinds = found["kinds"]
    for kind, paths in KINDS.items():
        for path, more in paths.items():
            _fields(kinds[kind], path).update(more)
    for kind, (newer, taken) in AS_IN_NEWER.items():
        for path in taken:
            around, _, field = path.rpartition(".")
            _fields(kinds[kind], around)[field] = _part(kinds[newer], path)
    described = _read("descriptions")
    for kind, said in kinds.items():
        group, _, name = kind.split("/")
        for path, text in described.get(f"{group}/{name}", {}).items():
            if (part := _part(said, path)) is not None:
                part["description"] = text
    return found


def _read(name: str) -> Data:
    found: Data = json.loads(Path(__file__).with_name(f"{name}.json").read_bytes())
    return found


def _part(said: Any, path: str) -> Any:
    """Return the data of a field of a kind. Elements of lists need no word. None if there is no such field."""
    for name in filter(None, path.split(".")):
        said = said.get("items", said).get("fields", {}).get(name)
        if said is None:
            return None
    return said


def _fields(said: Data, path: str) -> Data:
    """Return the fields of a struct in a kind, or of the elements of a list."""
    part = _part(said, path)
    found: Data = part.get("items", part)["fields"]
    return found


_APPS: Final = "io.k8s.api.apps.v1"
_CLUSTERS: Final = "com.github.karmada-io.karmada.pkg.apis.cluster.v1alpha1"
_CONDITION: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Condition"
_OCM: Final = "cluster.open-cluster-management.io"

_NUMBER: Final = {"form": "integer", "format": "int32"}
_TEXT: Final = {"form": "string"}
_TIME: Final = {"form": "time", "format": "date-time"}
_HELD_TAINTS: Final = {
    "heldTaints": {"form": "list", "items": {"form": "any"}, "description": "Taints that wait for the end of a hold."}
}
_SCHEDULED: Final = {"scheduledReplicas": {**_NUMBER, "description": "How many of its pods are bound."}}


def _cluster_status(definitions: Mapping[str, Data]) -> Data:
    """Conditions with the time of the last report, and held taints."""
    condition = {"form": "struct", "fields": {**definitions[_CONDITION]["fields"], "lastHeartbeatTime": _TIME}}
    return {"conditions": {"form": "list", "items": condition}, **_HELD_TAINTS}


DEFINITIONS: Final[Mapping[str, Callable[[Mapping[str, Data]], Data]]] = {
    **{
        f"{package}.{kind}Status": lambda _: _SCHEDULED
        for package, kind in (
            *((_APPS, kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
            ("io.k8s.api.batch.v1", "Job"),
            ("io.k8s.api.core.v1", "ReplicationController"),
        )
    },
    "io.k8s.api.policy.v1.PodDisruptionBudgetStatus": lambda _: {
        "held": {**_NUMBER, "description": "How many evictions it holds now."}
    },
    "io.k8s.api.core.v1.NodeStatus": lambda _: _HELD_TAINTS,
    f"{_CLUSTERS}.ClusterStatus": _cluster_status,
}
"""Fields of definitions, from all definitions."""

_GRACE: Final = {"gracePeriodSeconds": {**_NUMBER, "constraints": {"minimum": 0}}}
_SELECTOR_TYPE: Final = {
    "selectorType": {"form": "string", "enum": ["LegacyClusterSetLabel", "ExclusiveClusterSetLabel", "LabelSelector"]}
}

KINDS: Final[Mapping[str, Mapping[str, Data]]] = {
    "policy.karmada.io/v1alpha1/PropagationPolicy": {"spec.failover.cluster": _GRACE},
    "policy.karmada.io/v1alpha1/ClusterPropagationPolicy": {"spec.failover.cluster": _GRACE},
    f"{_OCM}/v1beta1/ManagedClusterSet": {"spec.clusterSelector": _SELECTOR_TYPE},
    f"{_OCM}/v1/ManagedCluster": {
        "status": _HELD_TAINTS,
        # Conditions are shown without what is empty.
        "status.conditions": {"reason": _TEXT, "message": _TEXT, "lastHeartbeatTime": _TIME},
    },
    f"{_OCM}/v1beta1/Placement": {
        "spec.prioritizerPolicy.configurations": {"name": _TEXT},
        "spec.decisionStrategy.groupStrategy.decisionGroups.groupClusterSelector": {
            "celSelector": {"form": "struct", "fields": {"celExpressions": {"form": "list", "items": _TEXT}}}
        },
    },
}
"""Fields of custom resources: by kind, and by the path of the struct that they are in."""

AS_IN_NEWER: Final = {
    f"{_OCM}/v1alpha1/Placement": (
        f"{_OCM}/v1beta1/Placement",
        ("spec.decisionStrategy", "spec.predicates.requiredClusterSelector.celSelector", "spec.spreadPolicy"),
    )
}
"""Fields that Moorage takes in an older version although upstream has them only in a newer one."""
