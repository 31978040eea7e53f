"""Discovery in its first form, without aggregation: the groups, versions and resources that are served."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from moorage.gateway.errors import no_such_path
from moorage.gateway.served_kinds import served
from moorage.kinds.kind import ServedKind

Document = dict[str, Any]

KUBERNETES_MINOR = "34"
"""The minor version of the Kubernetes API whose formats are used."""


def api_versions() -> Document:
    """`/api`: the versions of the core group."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_groups() -> Document:
    """`/apis`: the named groups."""
    names = dict.fromkeys(kind.group for kind in served() if kind.group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]}


def api_group(name: str) -> Document:
    """`/apis/{group}`: one group.

    Raises:
        StatusError: 404 if there is no group of that name.
    """
    if name not in {kind.group for kind in served() if kind.group}:
        raise no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def resources(group: str, api_version: str) -> Document:
    """`/api/v1`, `/apis/{group}/{version}`: the resources of one version.

    Raises:
        StatusError: 404 if the version is not served.
    """
    found = [kind for kind in served() if (kind.group, kind.version) == (group, api_version)]
    if not found:
        raise no_such_path()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": [shown for kind in found for shown in (_resource(kind), *_subresources(kind))],
    }


def server_version() -> Document:
    """`/version`: the version of the server."""
    try:
        own = version("moorage")
    except PackageNotFoundError:
        own = "0"
    return {
        "major": "1",
        "minor": KUBERNETES_MINOR,
        "gitVersion": f"v1.{KUBERNETES_MINOR}.0+moorage-{own}",
        "gitTreeState": "clean",
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _group(name: str) -> Document:
    versions = dict.fromkeys(kind.version for kind in served() if kind.group == name)
    shown = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


_WRITTEN: Final = {
    "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
    "binding": {"kind": "Binding"},
}
"""What a subresource is written as, where that is not the object itself."""

_CREATED: Final = frozenset({"binding", "eviction"})


def _subresources(kind: ServedKind) -> list[Document]:
    return [
        {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **_WRITTEN.get(name, {"kind": kind.kind}),
            "verbs": ["create"] if name in _CREATED else ["get", "patch", "update"],
        }
        for name in kind.definition.subresources
    ]


def _resource(kind: ServedKind) -> Document:
    short = kind.definition.short_names
    shown = {
        "name": kind.plural,
        "singularName": kind.definition.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    }
    return {**shown, "shortNames": list(short)} if short else shown
