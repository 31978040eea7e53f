"""The OpenAPI documents of what is served, made from discovery and the structure of the kinds.

They are made when they are first asked for, and kept as bytes. One of version 3 is about one group and version, so a
client reads what it needs; that of version 2 is about all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from moorage.apiserver.machinery.openapi import gnostic, registry, swagger
from moorage.apiserver.machinery.openapi.operations import Paths
from moorage.apiserver.machinery.openapi.schemas import Definitions

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

    Args:
        resources: what discovery lists: an `APIResourceList` for each group and version.
        version: of the server.
    """

    def __init__(self, resources: Iterable[Mapping[str, Any]], version: str) -> None:
        self._lists = {str(one["groupVersion"]): one["resources"] for one in resources}
        self._info = {"title": _TITLE, "version": version}
        self._made: dict[str, Rendered] = {}

    def of(self, path: str) -> Rendered | None:
        """Return the document of version 3 of a group and version. None if it is not served.

        Args:
            path: `api/v1`, `apis/apps/v1`.
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
            said = self._version_3(group_version)
            paths |= {path: swagger.path(one) for path, one in said["paths"].items()}
            for name, one in said["components"]["schemas"].items():
                kinds = definitions.get(name, {}).get(_KINDS, []) + one.get(_KINDS, [])
                definitions[name] = swagger.schema(one, is_custom=registry.is_custom(name))
                if kinds:
                    definitions[name][_KINDS] = [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
        return {"swagger": "2.0", "info": self._info, "paths": paths, "definitions": dict(sorted(definitions.items()))}


def _bytes(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
