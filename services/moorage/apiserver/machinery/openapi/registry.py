"""The structure of each served kind at each of its versions, also of kinds that have only a model.

Files of data are read when one of their kinds is needed, and a definition is built when it is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any, Final

from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.kinds.kind import Kind, View, named
from moorage.apiserver.machinery.openapi import data, definitions
from moorage.apiserver.machinery.openapi.definitions import definition, from_data, list_of
from moorage.apiserver.machinery.schema import Field, Form, Schema
from moorage.apiserver.rbac.cluster_sets import VIEW_GROUP
from moorage_schemas.base import Model
from moorage_schemas.described import DescribedJsonSchema
from moorage_schemas.resources.meta import Resource
from moorage_schemas.topics import TOPICS

_OWN: Final = "io.moorage."
"""The beginning of the names of the definitions of Moorage's own kinds."""

_META_GROUP: Final = "meta.k8s.io"
_CLUSTERS: Final = "cluster.karmada.io"


class Origin(Enum):
    """How upstream serves a kind. Clients may send a built-in kind in more ways than a custom resource."""

    BUILT_IN = "built in"
    """It takes strategic merge patches and protobuf. Unknown fields are dropped when it is decoded."""

    AGGREGATED = "aggregated"
    """It is built into another API server, as Karmada's Cluster is. It takes strategic merge patches, and no
    protobuf."""

    CUSTOM = "custom"
    """It takes neither strategic merge patches nor protobuf. Unknown fields are pruned."""

    OWN = "own"
    """It is Moorage's own, and is served as a custom resource. Its admission sees unknown fields, and may refuse
    them."""

    @property
    def merges_strategically(self) -> bool:
        """Whether it takes strategic merge patches."""
        return self in {Origin.BUILT_IN, Origin.AGGREGATED}

    @property
    def has_protobuf(self) -> bool:
        """Whether it can be read and written as protobuf."""
        return self is Origin.BUILT_IN


def schema_of(group: str, version: str, kind: str) -> Schema:
    """Return the structure of a kind, or of a list of its objects (`PodList`).

    A version that upstream no longer describes has the structure of the next newer one. Options (`DeleteOptions`)
    and other types that belong to no group are found in every group. Raises LookupError if no such kind is served.
    """
    found = _schema_of(group, version, kind, _served(group, kind))
    if found is None:
        raise LookupError(f"{group or 'core'}/{version} has no kind {kind}")
    return found


def is_known(group: str, version: str, kind: str) -> bool:
    """Return whether a kind is served, or upstream describes it."""
    path = f"{group}/{version}/{kind}" if group else f"{version}/{kind}"
    return path in data.native()["kinds"] or path in data.custom()["kinds"] or _served(group, kind) is not None


def origin_of(group: str, kind: str) -> Origin:
    """Return how upstream serves a kind, or lists of it."""
    if group == _CLUSTERS:
        return Origin.AGGREGATED
    names = {kind, kind.removesuffix("List")}
    if any((one, name) in _names("native") for name in names for one in (group, _META_GROUP)):
        return Origin.BUILT_IN
    return Origin.CUSTOM if any((group, name) in _names("custom") for name in names) else Origin.OWN


def is_custom(name: str) -> bool:
    """Return whether a definition belongs to a custom resource of upstream's, by its name."""
    return not name.startswith(_OWN) and name not in data.native()["definitions"]


_VIEWED: Final = {
    (VIEW_GROUP, "ManagedCluster"): "cluster.open-cluster-management.io/v1/ManagedCluster",
    (VIEW_GROUP, "ManagedClusterSet"): "cluster.open-cluster-management.io/v1beta2/ManagedClusterSet",
}
"""The kinds of which another group shows users their own objects, with the kinds whose structure they have."""


@cache
def _names(file: str) -> frozenset[tuple[str, str]]:
    """Return the group and the name of every kind in a file of data."""
    split = (key.split("/") for key in (data.native() if file == "native" else data.custom())["kinds"])
    return frozenset(
        (parts[0] if len(parts) == len(("group", "version", "kind")) else "", parts[-1]) for parts in split
    )


def _served(group: str, kind: str) -> Kind[Any] | None:
    found = kinds.named(kind)
    return found if found is not None and found.group == group else None


@cache
def _schema_of(group: str, version: str, kind: str, served: Kind[Any] | None) -> Schema | None:
    path = f"{group}/" if group else ""
    for one in (version, *_newer(version, served)):
        if (name := data.native()["kinds"].get(f"{path}{one}/{kind}")) is not None:
            return definition(name)
        if (said := data.custom()["kinds"].get(_VIEWED.get((group, kind), f"{path}{one}/{kind}"))) is not None:
            return from_data(said, f"{_reversed(group)}.{version}.{kind}")
    if (name := data.native()["kinds"].get(f"{_META_GROUP}/v1/{kind}")) is not None:
        return definition(name)
    if served is not None:
        return schema_of_model(served, f"{_reversed(group)}.{version}")
    single = kind.removesuffix("List")
    if single == kind:
        return None
    item = _schema_of(group, version, single, _served(group, single))
    return list_of(item) if item is not None else None


def _newer(version: str, served: Kind[Any] | None) -> tuple[str, ...]:
    """Return the versions of a kind that are newer than one of them, the next one first."""
    if served is None or version not in served.versions:
        return ()
    return tuple(reversed(served.versions[: served.versions.index(version)]))


def _reversed(group: str) -> str:
    """Return a group as the names of definitions have it: `io.moorage`."""
    return ".".join(reversed(group.split(".")))


_UPSTREAM: Final = {name: f"{definitions.META}.{name}" for name in ("LabelSelector", "ObjectMeta")}
"""Models that upstream's definitions describe in more detail."""

_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

_FORMS: Final = {"string": Form.STRING, "integer": Form.INTEGER, "number": Form.NUMBER, "boolean": Form.BOOLEAN}
_CONSTRAINTS: Final = ("pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_REFERENCE: Final = "#/$defs/"


def schema_of_model(kind: Kind[Any], prefix: str) -> Schema:
    """Return the structure of a kind whose model is all that describes it.

    The status of a kind that only the services write is the record that it is made from, and may have more, unless it
    has a model. `prefix` is that of the names of its definitions: `io.moorage.v1alpha1`.
    """
    model = kind.model
    fields = dict(_structure(model, prefix).fields)
    fields["metadata"] = Field("metadata", definitions.definition(f"{definitions.META}.ObjectMeta"))
    if isinstance(kind, View) and kind.made_from and model is Resource:
        event = next(topic.event for topic in TOPICS if topic.short == kind.made_from)
        status = _structure(event, prefix)
        status.keeps_unknown = True
        fields["status"] = Field("status", status)
        fields["spec"] = Field("spec", _anything())
    if not isinstance(kind, View):
        fields.setdefault("status", Field("status", _anything()))
    return Schema(
        Form.STRUCT,
        name=f"{prefix}.{kind.kind}",
        fields=fields,
        keeps_unknown=model is Resource,
        description=_plain(model.__doc__ if model is not Resource else type(kind).__doc__),
    )


def _anything() -> Schema:
    """Return an object of which nothing more is known."""
    return Schema(Form.STRUCT, keeps_unknown=True)


def _structure(model: type[Model], prefix: str) -> Schema:
    said = model.model_json_schema(by_alias=True, schema_generator=DescribedJsonSchema)
    reader = _Reader(said.get("$defs", {}), prefix)
    return reader.read(said)


def _plain(text: str | None) -> str:
    """Return the first paragraph of a docstring, in one line."""
    return " ".join((text or "").split("\n\n")[0].split())


class _Reader:
    """Reads a JSON Schema that pydantic has made."""

    def __init__(self, definitions: Mapping[str, Any], prefix: str) -> None:
        self._said = definitions
        self._prefix = prefix
        self._made: dict[str, Schema] = {}

    def read(self, said: Mapping[str, Any]) -> Schema:
        """Return the schema that a part describes."""
        if (reference := said.get("$ref")) is not None:
            return self._definition(reference.removeprefix(_REFERENCE))
        if (choices := said.get("anyOf")) is not None:
            return self._choice(choices)
        made = Schema(self._form(said), description=_plain(said.get("description")))
        if made.form is Form.STRUCT:
            fields: dict[str, Field] = {}
            made.fields = fields
            self._fields(said, fields)
        elif made.form is Form.MAP:
            made.items = self.read(said["additionalProperties"])
        elif made.form is Form.LIST:
            made.items = self.read(said.get("items", {}))
        made.keeps_unknown = made.form is Form.STRUCT and not made.fields
        made.format = {Form.TIME: "date-time", Form.INTEGER: "int64", Form.NUMBER: "double"}.get(made.form, "")
        made.enum = tuple(map(str, said["enum"])) if "enum" in said else (said["const"],) if "const" in said else ()
        made.constraints = {name: said[name] for name in _CONSTRAINTS if name in said}
        return made

    def _form(self, said: Mapping[str, Any]) -> Form:
        kind = said.get("type")
        if kind == "object":
            return Form.MAP if isinstance(said.get("additionalProperties"), Mapping) else Form.STRUCT
        if kind == "array":
            return Form.LIST
        if kind == "string" and said.get("format") == "date-time":
            return Form.TIME
        return _FORMS.get(str(kind), Form.ANY)

    def _choice(self, choices: list[Mapping[str, Any]]) -> Schema:
        """Return a value of several forms: of one and null, a number or a string, or any."""
        real = [one for one in choices if one.get("type") != "null"]
        if len(real) > 1:
            names = {one.get("type") for one in real}
            is_either = names == {"integer", "string"}
            made = replace(definitions.definition(_INT_OR_STRING)) if is_either else Schema(Form.ANY)
        else:
            # A definition is shared, and only this use of it may be null.
            made = replace(self.read(real[0]))
        made.is_nullable = len(real) < len(choices)
        return made

    def _definition(self, name: str) -> Schema:
        if name in _UPSTREAM:
            return definitions.definition(_UPSTREAM[name])
        if name not in self._made:
            full = f"{self._prefix}.{name}"
            # A part may be of a model that has the name of a kind: the taints of an eviction are no objects.
            made = Schema(Form.STRUCT, name=f"{full}Value" if named(name) is not None else full)
            self._made[name] = made
            found = self.read(self._said[name])
            for one in dataclasses.fields(Schema):
                if one.name != "name":
                    setattr(made, one.name, getattr(found, one.name))
        return self._made[name]

    def _fields(self, said: Mapping[str, Any], into: dict[str, Field]) -> None:
        required = frozenset(said.get("required", ()))
        for name, one in said.get("properties", {}).items():
            into[name] = Field(
                name, self.read(one), required=name in required, description=_plain(one.get("description"))
            )
