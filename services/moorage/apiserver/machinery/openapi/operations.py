"""The paths of an OpenAPI document: what one may ask of each resource, as discovery lists it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.registry import Origin
from moorage.apiserver.machinery.openapi.schemas import REFERENCE, Definitions

Json = dict[str, Any]

_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_WATCH: Final = ";stream=watch"

_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_WHOLE: Final = {"type": "integer", "minimum": 0}
_QUERY: Final[Mapping[str, tuple[Json, str]]] = {
    "allowWatchBookmarks": (_FLAG, "Whether a watch may contain bookmarks, which have nothing but a resource version."),
    "continue": (_TEXT, "The token of the part of a list that comes next."),
    "dryRun": ({"type": "string", "enum": ["All"]}, "With `All`, everything is checked, and nothing is written."),
    "fieldManager": ({"type": "string", "maxLength": 128}, "Who owns the fields that are written."),
    "fieldSelector": (_TEXT, "Selects by fields: `metadata.name=a,spec.nodeName!=b`."),
    "fieldValidation": (
        {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
        "Whether unknown and repeated fields are ignored, warned of (the default) or refused.",
    ),
    "force": (_FLAG, "Whether server-side apply takes fields over from those who own them."),
    "gracePeriodSeconds": (_WHOLE, "Seconds until an object that goes gracefully is gone. 0 means at once."),
    "labelSelector": (_TEXT, "Selects by labels: `zone in (a,b),!spare`."),
    "limit": (_WHOLE, "The most objects in an answer. The next part has the token of `continue`."),
    "propagationPolicy": (
        {"type": "string", "enum": ["Orphan", "Background", "Foreground"]},
        "What becomes of the objects that an object owns.",
    ),
    "resourceVersion": (_TEXT, "From which version on a watch begins, or how old a list may be."),
    "resourceVersionMatch": (
        {"type": "string", "enum": ["Exact", "NotOlderThan"]},
        "How the version of a list compares with the one that is given.",
    ),
    "sendInitialEvents": (_FLAG, "Whether a watch begins with an event for every object that is there."),
    "timeoutSeconds": (_WHOLE, "Seconds after which a watch ends."),
    "watch": (_FLAG, "Whether changes follow, instead of a list."),
}
_LISTING: Final = (
    *("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion"),
    *("resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"),
)
_WRITING: Final = ("dryRun", "fieldManager", "fieldValidation")
_DELETING: Final = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
_SELECTING: Final = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch")

_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


@dataclass(frozen=True, slots=True)
class _Verb:
    """What a verb of discovery is in HTTP."""

    method: str
    action: str
    """As in `x-kubernetes-action`."""

    words: str
    """What the names of its operations begin with."""

    query: tuple[str, ...]
    codes: tuple[int, ...]
    on_one: bool = True
    """Whether its path has the name of an object."""


_VERBS: Final[Mapping[str, _Verb]] = {
    "list": _Verb("get", "list", "list", _LISTING, (200,), on_one=False),
    "create": _Verb("post", "post", "create", _WRITING, (200, 201, 202), on_one=False),
    "deletecollection": _Verb(
        "delete", "deletecollection", "deleteCollection", (*_DELETING, *_SELECTING), (200,), on_one=False
    ),
    "get": _Verb("get", "get", "read", (), (200,)),
    "update": _Verb("put", "put", "replace", _WRITING, (200, 201)),
    "patch": _Verb("patch", "patch", "patch", (*_WRITING, "force"), (200, 201)),
    "delete": _Verb("delete", "delete", "delete", _DELETING, (200, 202)),
}


class Paths:
    """The paths of one group and version.

    Args:
        group_version: `group/version`. The core group has no prefix.
        definitions: of the document.
    """

    def __init__(self, group_version: str, definitions: Definitions) -> None:
        group, _, self._version = group_version.rpartition("/")
        self._group = group
        self._definitions = definitions
        self._root = f"/apis/{group_version}" if group else f"/api/{group_version}"
        self.found: dict[str, Json] = {}

    def add(self, resource: Mapping[str, Any]) -> None:
        """Add the paths of a resource.

        Args:
            resource: as discovery lists it: `name` (`pods/status`), `kind`, `namespaced`, `verbs`, and `group` and
                `version` if its objects are of another.
        """
        plural, _, subresource = str(resource["name"]).partition("/")
        within = "/namespaces/{namespace}" if resource["namespaced"] else ""
        for name in resource["verbs"]:
            verb = _VERBS.get(name)
            if verb is None:
                continue
            path = f"{self._root}{within}/{plural}"
            if verb.on_one or subresource:
                path += "/{name}"
            path += f"/{subresource}" if subresource else ""
            self._operation(path, verb, resource)
            if name == "list" and within:
                self._operation(f"{self._root}/{plural}", verb, resource, everywhere=True)

    def _operation(self, path: str, verb: _Verb, resource: Mapping[str, Any], *, everywhere: bool = False) -> None:
        kind = str(resource["kind"])
        group = str(resource.get("group") or (self._group if "version" not in resource else ""))
        version = str(resource.get("version") or self._version)
        name = self._definitions.kind(registry.schema_of(group, version, kind), group, version, kind)
        origin = registry.origin_of(group, kind)
        at = self.found.setdefault(path, {"parameters": list(_path_parameters(path))})
        at[verb.method] = {
            "description": f"{_WORDS[verb.action]} {kind}",
            "operationId": self._name(verb, resource, everywhere=everywhere),
            "tags": [f"{re.sub('[^a-z0-9]+', '_', self._group) or 'core'}_{self._version}"],
            "parameters": [_query_parameter(one) for one in verb.query],
            **self._body(verb, name, origin),
            "responses": self._responses(verb, (group, version, kind), name, origin),
            "x-kubernetes-action": verb.action,
            "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
        }

    def _name(self, verb: _Verb, resource: Mapping[str, Any], *, everywhere: bool) -> str:
        plural, _, subresource = str(resource["name"]).partition("/")
        group = "".join(part.capitalize() for part in re.split("[^a-z0-9]+", self._group or "core"))
        namespaced = "Namespaced" if resource["namespaced"] and not everywhere else ""
        middle = f"{group}{self._version.capitalize()}{namespaced}{plural.capitalize()}"
        return f"{verb.words}{middle}{subresource.capitalize()}{'ForAllNamespaces' if everywhere else ''}"

    def _body(self, verb: _Verb, name: str, origin: Origin) -> Json:
        if verb.method in {"post", "put"}:
            kinds = (_JSON, _YAML, *((_PROTOBUF,) if origin.has_protobuf else ()))
            return {"requestBody": {"content": _content(kinds, name), "required": True}}
        if verb.method == "delete":
            options = self._definitions.use(registry.schema_of("", "v1", "DeleteOptions"))
            content = {one: {"schema": options} for one in (_JSON, _YAML, _PROTOBUF)}
            return {"requestBody": {"content": content}}
        if verb.method == "patch":
            # A patch is an object in all types but one, where it is a list of operations.
            content = {
                one: {
                    "schema": {"type": "array", "items": {"type": "object"}}
                    if "json-patch" in one
                    else {"type": "object"}
                }
                for one in _PATCHES
                if origin.merges_strategically or "strategic" not in one
            }
            return {"requestBody": {"content": content, "required": True}}
        return {}

    def _responses(self, verb: _Verb, gvk: tuple[str, str, str], name: str, origin: Origin) -> Json:
        shown = name
        kinds: tuple[str, ...] = (_JSON, _YAML, *((_PROTOBUF,) if origin.has_protobuf else ()))
        if verb.action == "list":
            group, version, kind = gvk
            shown = self._definitions.kind(
                registry.schema_of(group, version, f"{kind}List"), group, version, f"{kind}List"
            )
            kinds = (*kinds, _JSON + _WATCH, *((_PROTOBUF + _WATCH,) if origin.has_protobuf else ()))
        status = registry.schema_of("", "v1", "Status")
        failure = self._definitions.kind(status, "", "v1", "Status")
        if verb.method == "delete":
            # An object that goes gracefully is the answer itself.
            either = {"anyOf": [{"$ref": REFERENCE + failure}, {"$ref": REFERENCE + name}]}
            content = {one: {"schema": either} for one in kinds}
        else:
            content = _content(kinds, shown)
        done = {str(code): {"description": _ANSWERS[code], "content": content} for code in verb.codes}
        return {**done, "default": {"description": "What went wrong.", "content": _content((_JSON,), failure)}}


_WORDS: Final = {
    "list": "List or watch objects of the kind",
    "post": "Create an object of the kind",
    "deletecollection": "Delete the selected objects of the kind",
    "get": "Read an object of the kind",
    "put": "Replace an object of the kind",
    "patch": "Change a part of an object of the kind",
    "delete": "Delete an object of the kind",
}
_ANSWERS: Final = {200: "OK", 201: "Created", 202: "Accepted"}
_IN_PATHS: Final = {"name": "The name of the object.", "namespace": "The namespace of the object."}


def _content(kinds: tuple[str, ...], name: str) -> Json:
    return {one: {"schema": {"$ref": REFERENCE + name}} for one in kinds}


def _path_parameters(path: str) -> Iterator[Json]:
    for name in sorted(re.findall(r"{(\w+)}", path)):
        yield {"name": name, "in": "path", "required": True, "description": _IN_PATHS[name], "schema": _TEXT}
    yield {
        "name": "pretty",
        "in": "query",
        "description": "With `true`, JSON is indented.",
        "schema": _TEXT,
    }


def _query_parameter(name: str) -> Json:
    schema, description = _QUERY[name]
    return {"name": name, "in": "query", "description": description, "schema": schema}
