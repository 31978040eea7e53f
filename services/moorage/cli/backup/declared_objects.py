"""The declared objects of a fleet as manifests, in an order in which `moorage apply -f` can create them.

They have what people have declared: no status, no uid, of a target's taints only those that a person has set, and no
rules of an aggregated ClusterRole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
import yaml
from typing_extensions import override

from moorage.apiserver.rbac.rules import is_aggregated
from moorage.cli.backup.saved_record import SavedRecord
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resource import target_of_resource

_FIRST: Final = (
    "Namespace",
    "MoorageConfiguration",
    "EvictionPause",
    "EvictionBudget",
    "Maintenance",
    "PriorityClass",
    "StorageClass",
    "LimitRange",
    "ResourceQuota",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ProbeGrant",
    "Webhook",
    "Node",
    "MachineSet",
    "DedicatedNodes",
    "Cluster",
    "ClusterTaintPolicy",
    "TaintPolicy",
    "ManagedClusterSet",
    "ManagedClusterSetBinding",
    "ManagedCluster",
    "ManagedClusterAddOn",
    "AddOnPlacementScore",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
)
"""The kinds that others need, or that must be in force before work is placed, in their order."""

_LAST: Final = (
    "Placement",
    "Rollout",
    "ClusterPropagationPolicy",
    "PropagationPolicy",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "Pod",
    "EvictionRequest",
)
"""The kinds of work, and of what places it, in their order. All others come before them, by name."""

_OF_A_LIFE: Final = frozenset(
    {
        *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
        *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences"),
    }
)
"""Fields of `metadata` that an API server fills in, or that name the uids of other objects."""

_LEASE: Final = "Lease"
_SECRET: Final = "Secret"  # noqa: S105 - the name of a kind
_MIRRORED: Final = "mirrored objects"
_DELETED: Final = "objects that are being deleted"
_OWNED: Final = "objects that a controller has made"
_LEASES: Final = "leases of agents"


class _Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]  # chosen once
    """Quick YAML without anchors, in which texts of many lines are blocks."""

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent)


class DeclaredObjects:
    """Collects the records of `resources`, and returns them as manifests.

    Args:
        secrets: whether Secrets are among them.
    """

    def __init__(self, *, secrets: bool) -> None:
        self._secrets = secrets
        self._found: defaultdict[str, dict[tuple[str, str], bytes]] = defaultdict(dict)
        self.left_out: Counter[str] = Counter()
        """The number of objects that were left out, by what they are."""

    def take(self, records: Iterable[SavedRecord]) -> None:
        """Take records, in the order of their log. Several of one key may come, and deletions."""
        for record in records:
            key = ResourceKey.parse(record.name)
            place = (key.namespace, key.name)
            if key.cluster:
                self.left_out[_MIRRORED] += record.value is not None
            elif record.value is None:
                self._found[key.kind].pop(place, None)
            else:
                self._found[key.kind][place] = record.value

    @property
    def kinds(self) -> list[str]:
        """The kinds that there are, in the order in which they are applied."""
        first = {kind: (0, place, "") for place, kind in enumerate(_FIRST)}
        last = {kind: (2, place, "") for place, kind in enumerate(_LAST)}
        return sorted((kind for kind in self._found), key=lambda kind: {**first, **last}.get(kind, (1, 0, kind)))

    def manifests(self, kind: str) -> Iterator[bytes]:
        """Yield the documents of a kind, by namespace and name. What cannot be applied is left out and counted."""
        for place in sorted(self._found[kind]):
            declared = orjson.loads(self._found[kind][place])
            if why := self._reason(kind, declared):
                self.left_out[why] += 1
                continue
            text = yaml.dump(_manifest(kind, declared), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
            yield b"---\n" + text.encode()

    def _reason(self, kind: str, declared: Mapping[str, Any]) -> str:
        """Return what an object is that is left out. Empty for one that is not."""
        metadata = declared["object"].get("metadata") or {}
        if kind == _SECRET and not self._secrets:
            return "Secrets"
        if declared.get("mirrored"):
            return _MIRRORED
        if metadata.get("deletionTimestamp"):
            return _DELETED
        if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
            return _OWNED
        if kind == _LEASE:
            return _LEASES
        return ""


def _manifest(kind: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    whole = declared["object"]
    metadata = {name: value for name, value in (whole.get("metadata") or {}).items() if name not in _OF_A_LIFE}
    found = {name: value for name, value in whole.items() if name not in {"apiVersion", "kind", "metadata", "status"}}
    if target_of_resource(f"{kind}//{metadata.get('name', '')}") is not None:
        spec = dict(found.get("spec") or {})
        if taints := [_taint(one) for one in declared.get("wishes") or () if one.get("present")]:
            spec["taints"] = taints
        if spec:
            found["spec"] = spec
    if is_aggregated(found):
        # The gateway works them out, and owns them: an apply that gives others would be a conflict.
        found.pop("rules", None)
    return {"apiVersion": whole.get("apiVersion"), "kind": whole.get("kind"), "metadata": metadata, **found}


def _taint(edit: Mapping[str, Any]) -> dict[str, Any]:
    """Return a taint that a person has set, with the time from which its tolerations count."""
    value = {"value": edit["value"]} if edit.get("value") else {}
    return {"key": edit["key"], **value, "effect": edit["effect"], "timeAdded": edit["time"]}
