"""The OpenAPI documents of what is served, made from discovery and the structure of the kinds.

They are made at the first request for them, and kept as bytes. One of version 3 is about one group and version, so a
client reads what it needs; that of version 2 is about all of them.

Version 2 cannot express that a value is a number or a text. There it is a text, as it is in an API server's document.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from moorage.apiserver.machinery.openapi import gnostic, registry
from moorage.apiserver.machinery.openapi.registry import Origin
from moorage.apiserver.machinery.openapi.schemas import REFERENCE, Definitions

Json = dict[str, Any]

_TITLE: Final = "Moorage"
_KINDS: Final = "x-kubernetes-group-version-kind"


class Rendered:
    """A document as bytes, with its hash."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.hash = hashlib.sha512(body).hexdigest().upper()
        """As `ETag` and the paths of documents of version 3 have it."""


class Documents:
    """The documents of everything that is served.

    `resources` are what discovery lists: an `APIResourceList` for each group and version.
    """

    def __init__(self, resources: Iterable[Mapping[str, Any]], version: str) -> None:
        self._lists = {str(one["groupVersion"]): one["resources"] for one in resources}
        self._info = {"title": _TITLE, "version": version}
        self._made: dict[str, Rendered] = {}

    def of(self, path: str) -> Rendered | None:
        """Return the document of version 3 of a group and version. None if it is not served.

        `path` is such as `api/v1` or `apis/apps/v1`.
        """
        if (found := self._made.get(path)) is not None:
            return found
        root, _, group_version = path.partition("/")
        if group_version not in self._lists or root != ("apis" if "/" in group_version else "api"):
            return None
        made = self._made[path] = Rendered(_bytes(self._version_3(group_version)))
        return made

    @cached_property
    def index(self) -> Rendered:
        """Which documents of version 3 there are, and where. Their hashes are in the addresses."""
        paths = {}
        for group_version in self._lists:
            path = f"{'apis' if '/' in group_version else 'api'}/{group_version}"
            if (found := self.of(path)) is not None:
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={found.hash}"}
        return Rendered(_bytes({"paths": paths}))

    @cached_property
    def version_2(self) -> Rendered:
        """The document of version 2 as JSON."""
        return Rendered(_bytes(self._version_2))

    @cached_property
    def version_2_protobuf(self) -> Rendered:
        """The document of version 2 as protobuf."""
        return Rendered(gnostic.document(self._version_2))

    def _version_3(self, group_version: str) -> Json:
        definitions = Definitions()
        paths = Paths(group_version, definitions)
        for resource in self._lists[group_version]:
            paths.add(resource)
        return {
            "openapi": "3.0.0",
            "info": self._info,
            "paths": paths.found,
            "components": {"schemas": dict(sorted(definitions.found.items()))},
        }

    @property
    def _version_2(self) -> Json:
        paths: Json = {}
        definitions: Json = {}
        for group_version in self._lists:
            node = self._version_3(group_version)
            paths |= {path: swagger_path(one) for path, one in node["paths"].items()}
            for name, one in node["components"]["schemas"].items():
                kinds = definitions.get(name, {}).get(_KINDS, []) + one.get(_KINDS, [])
                definitions[name] = swagger_schema(one, is_custom=registry.is_custom(name))
                if kinds:
                    definitions[name][_KINDS] = [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
        return {"swagger": "2.0", "info": self._info, "paths": paths, "definitions": dict(sorted(definitions.items()))}


def _bytes(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


_DEFINITIONS: Final = "#/definitions/"
_METHODS: Final = ("get", "put", "post", "delete", "patch")


def swagger_schema(node: Mapping[str, Any], *, is_custom: bool = False) -> Json:
    """Return a schema of version 3 as version 2 has it.

    Args:
        node: the schema.
        is_custom: whether it is a part of a custom resource of upstream's. As an API server does, nothing is stated
            there of values that may be of more than one type, such as null.
    """
    if is_custom and (node.get("nullable") or "oneOf" in node):
        return {name: node[name] for name in ("description",) if name in node}
    made: Json = {name: value for name, value in node.items() if name not in _TRANSLATED}
    if (reference := node.get("$ref")) is not None:
        made["$ref"] = str(reference).replace(REFERENCE, _DEFINITIONS)
    if (whole := node.get("allOf")) is not None:
        made |= swagger_schema(whole[0], is_custom=is_custom)
    if (choices := node.get("oneOf")) is not None:
        made["type"] = "string" if {"type": "string"} in choices else choices[0]["type"]
    if (either := node.get("anyOf")) is not None:
        made |= swagger_schema(either[0], is_custom=is_custom)
    if (properties := node.get("properties")) is not None:
        made["properties"] = {name: swagger_schema(one, is_custom=is_custom) for name, one in properties.items()}
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), Mapping):
            made[name] = swagger_schema(node[name], is_custom=is_custom)
    return made


_TRANSLATED: Final = frozenset(
    {"$ref", "allOf", "oneOf", "anyOf", "properties", "items", "additionalProperties", "nullable", "default"}
)
"""The keywords that differ, and those that an API server leaves out of version 2."""


def swagger_path(node: Mapping[str, Any]) -> Json:
    """Return the operations of a path of version 3 as version 2 has them."""
    made: Json = {"parameters": [_parameter(one) for one in node["parameters"]]}
    for method in _METHODS:
        if (operation := node.get(method)) is not None:
            made[method] = _operation(operation)
    return made


def _operation(node: Mapping[str, Any]) -> Json:
    made: Json = {name: value for name, value in node.items() if name not in {"requestBody", "responses", "parameters"}}
    body = node.get("requestBody")
    made["consumes"] = list(body["content"]) if body is not None else ["*/*"]
    made["produces"] = list(next(iter(node["responses"].values()))["content"])
    made["schemes"] = ["http"]
    made["parameters"] = [_parameter(one) for one in node["parameters"]]
    if body is not None:
        shown = next(iter(body["content"].values()))["schema"]
        is_patch = node["x-kubernetes-action"] == "patch"
        one = {"name": "body", "in": "body", "schema": {"type": "object"} if is_patch else swagger_schema(shown)}
        made["parameters"].insert(0, {**one, "required": True} if body.get("required") else one)
    made["responses"] = {
        code: {
            "description": answer["description"],
            "schema": swagger_schema(next(iter(answer["content"].values()))["schema"]),
        }
        for code, answer in node["responses"].items()
    }
    return made


def _parameter(node: Mapping[str, Any]) -> Json:
    return {**{name: value for name, value in node.items() if name != "schema"}, **node["schema"], "uniqueItems": True}


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
    "fieldManager": ({"type": "string", "maxLength": 128}, "The manager that owns the fields that are written."),
    "fieldSelector": (_TEXT, "Selects by fields: `metadata.name=a,spec.nodeName!=b`."),
    "fieldValidation": (
        {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
        "Whether unknown and repeated fields are ignored, warned of (the default) or refused.",
    ),
    "force": (_FLAG, "Whether server-side apply takes fields over from those who own them."),
    "gracePeriodSeconds": (_WHOLE, "Seconds until an object that ends gracefully is deleted. 0 means at once."),
    "labelSelector": (_TEXT, "Selects by labels: `zone in (a,b),!spare`."),
    "limit": (_WHOLE, "The most objects in an answer. The next part has the token of `continue`."),
    "propagationPolicy": (
        {"type": "string", "enum": ["Orphan", "Background", "Foreground"]},
        "The treatment of the objects that an object owns.",
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
    """The form of a verb of discovery in HTTP."""

    method: str
    action: str
    """As in `x-kubernetes-action`."""

    words: str
    """The beginning of the names of its operations."""

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
    """The paths of one group and version. The core group has no prefix in `group_version`."""

    def __init__(self, group_version: str, definitions: Definitions) -> None:
        group, _, self._version = group_version.rpartition("/")
        self._group = group
        self._definitions = definitions
        self._root = f"/apis/{group_version}" if group else f"/api/{group_version}"
        self.found: dict[str, Json] = {}

    def add(self, resource: Mapping[str, Any]) -> None:
        """Add the paths of a resource.

        It is as discovery lists it: `name` (`pods/status`), `kind`, `namespaced`, `verbs`, and `group` and `version` if
        its objects are of another.
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
        return {**done, "default": {"description": "The failure.", "content": _content((_JSON,), failure)}}


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
    yield {"name": "pretty", "in": "query", "description": "With `true`, JSON is indented.", "schema": _TEXT}


def _query_parameter(name: str) -> Json:
    schema, description = _QUERY[name]
    return {"name": name, "in": "query", "description": description, "schema": schema}
