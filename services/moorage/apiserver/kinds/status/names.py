"""Names of the read-only objects that are made of records. A `/` in a key becomes `~`, since names have no slash."""

from __future__ import annotations

from moorage.apiserver.kinds.status.records import ObjectId
from moorage_schemas.keys import TargetKey
from moorage_schemas.resources.names import DEFAULT_NAMESPACE
from moorage_schemas.resources.workload_kinds import POD


def target_prefix(target: str) -> str:
    """The first part of the name of an object about a target: `node.n1`."""
    kind, name, _ = TargetKey.parse(target)
    return f"{kind.lower()}.{name}"


def about_target(target: str, *parts: str) -> str:
    """The name of an object about a target: `node.n1:Ready`, `node.n1:NoExecute:example.com~key`."""
    return ":".join([target_prefix(target), *parts]).replace("/", "~")


def workload_name(workload: ObjectId) -> str:
    """The name of an object about a workload: that of a pod, and `deployment:web` for any other kind."""
    return workload.name if workload.kind == POD else f"{workload.kind.lower()}:{workload.name}"


def workload_namespace(workload: ObjectId) -> str:
    """The namespace of an object about a workload. Some workloads have none."""
    return workload.namespace or DEFAULT_NAMESPACE


def of_pair(kind: str, key: str) -> ObjectId:
    """The object of a binding or an eviction, by its record key.

    `Pod/default/web-0|Node/n1|3` is `web-0:node.n1:3` in the namespace `default`.
    """
    workload, target, *rest = key.split("|")
    about = ObjectId.of(workload)
    name = ":".join([workload_name(about), target_prefix(target), *rest])
    return ObjectId(kind, workload_namespace(about), name)
