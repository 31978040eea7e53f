"""The attributes of a request, read from its method and its path alone, as a kube-apiserver reads them.

So users without permissions do not learn which paths exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.apiserver.http.messages.options import is_true
from moorage.apiserver.http.messages.selectors import named_by_field_selector
from moorage.apiserver.kinds.kind import called
from moorage.decide.kubernetes.attributes import (
    CLUSTERS,
    DECISIONS,
    EXPLANATIONS,
    MIRRORS,
    OWN_GROUP,
    REPORTS,
    SIMULATIONS,
    Attributes,
)
from moorage_schemas.refs import TargetKind

CONDITIONS_PATH: Final = "/v1/conditions"
EXPLAIN_PATH: Final = "/v1/explain"
MIRROR_PATH: Final = "/v1/mirror"
CLUSTERS_PATH: Final = "/v1/clusters"
DECISIONS_PATH: Final = "/v1/decisions"
SIMULATE_PATH: Final = "/v1/simulate"

_PLAIN: Final = {CONDITIONS_PATH: REPORTS, SIMULATE_PATH: SIMULATIONS}
"""Paths of requests about all objects of a resource, with the verb of the method."""

_PREFIXES: Final = frozenset({"api", "apis"})
_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_TARGETS: Final = frozenset(kind.value for kind in TargetKind)
_SPECIAL: Final = frozenset({"proxy", "watch"})
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
_LEAST: Final = 3  # prefix, version and resource


def attributes_of(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """Return the attributes of a request."""
    if (own := _own(method, path, query)) is not None:
        return own
    return _of_objects(method, path, query) or Attributes(method.lower(), path=path)


def seen_by(path: str, query: Mapping[str, str]) -> Attributes | None:
    """Return what the sender must also be allowed to see. None for nearly all requests.

    An explanation of a target shows everything that the target itself shows.
    """
    kind = called(query.get("kind", "")) if path == EXPLAIN_PATH else None
    if kind is None or kind.kind not in _TARGETS:
        return None
    return Attributes("get", kind.group, kind.versions[0], kind.plural, "", "", query.get("name", ""))


def _of_objects(method: str, path: str, query: Mapping[str, str]) -> Attributes | None:
    """Return the attributes of a request about objects. None for other paths."""
    prefix, *parts = path.strip("/").split("/")
    if prefix not in _PREFIXES or len(parts) < (_LEAST if prefix == "apis" else _LEAST - 1):
        return None
    group = parts.pop(0) if prefix == "apis" else ""
    version = parts.pop(0)
    verb = _VERBS.get(method, "")
    if special := parts[0] in _SPECIAL:
        verb = parts.pop(0)
        if not parts:
            return None
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 1 else ""
    if namespace and len(parts) > 2 and parts[2] not in _OF_NAMESPACES:  # noqa: PLR2004 - namespaces/{namespace}/{resource}
        parts = parts[2:]
    resource, name, subresource = (*parts, "", "", "")[:3]
    verb, name = _of_collection(verb, query) if not name else (verb, name)
    return Attributes(verb, group, version, resource, "" if special else subresource, namespace, name)


def _of_collection(verb: str, query: Mapping[str, str]) -> tuple[str, str]:
    """Return the verb of a request that names no object in its path, and the one object that it selects, if it does."""
    if verb == "get":
        verb = "watch" if is_true(query, "watch") else "list"
    elif verb == "delete":
        verb = "deletecollection"
    name = named_by_field_selector(query.get("fieldSelector", "")) if verb in {"list", "watch"} else ""
    return verb, name


def _own(method: str, path: str, query: Mapping[str, str]) -> Attributes | None:
    """Return the attributes of a request at one of Moorage's own paths. None for other paths."""
    verb = _VERBS.get(method, "")
    if (resource := _PLAIN.get(path)) is not None:
        return Attributes(verb, OWN_GROUP, "v1alpha1", resource)
    if path == EXPLAIN_PATH:
        kind = called(query.get("kind", ""))
        namespace = query.get("namespace", "default") if kind is not None and kind.namespaced else ""
        return Attributes(verb, OWN_GROUP, "v1alpha1", EXPLANATIONS, "", namespace, query.get("name", ""))
    if path == MIRROR_PATH:  # the body names the cluster
        return Attributes("update" if verb == "create" else verb, OWN_GROUP, "v1alpha1", MIRRORS)
    if path == CLUSTERS_PATH:
        return Attributes("list" if verb == "get" else verb, OWN_GROUP, "v1alpha1", CLUSTERS)
    if path == DECISIONS_PATH:
        watched = "watch" if verb == "get" else verb
        return Attributes(watched, OWN_GROUP, "v1alpha1", DECISIONS, "", query.get("namespace", ""))
    return None
