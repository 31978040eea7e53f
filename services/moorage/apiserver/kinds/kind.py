"""The interface of kinds, and their discovery.

A kind is one class of this folder. Its module ends with `KIND = TheClass()`, or with `KINDS` if a family shares it. The
gateway, discovery, the command line and the JSON Schemas read the attributes and methods of kinds.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from typing_extensions import override

from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn
from moorage.apiserver.kinds.printing.sections import Related, Section, as_declared

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.base import Model
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.meta import ObjectMeta, Resource
    from moorage_schemas.taint import Taint, TargetTainted

PACKAGE = "moorage.apiserver.kinds"
"""The package whose modules are the kinds."""

AFTER_ALL = 1000
"""The order of what has no place of its own."""

ResourceT = TypeVar("ResourceT", bound="Resource")
Document = dict[str, Any]


class UnknownFields(Enum):
    """The treatment of fields that a kind's model does not have."""

    KEPT = auto()
    """They are kept: the kind has many fields that Moorage does not use."""

    WARNED = auto()
    """They are kept, and the writer is warned, as `kubectl --validate=warn` does."""

    REFUSED = auto()
    """They are refused: a misspelt scope would hold the whole fleet's evictions."""


class Kind(Generic[ResourceT]):
    """One kind of object that the API serves, with `ResourceT` as its typed view.

    Documents are JSON objects. No method changes one that it gets.
    """

    group: ClassVar[str] = ""
    """The API group. Empty for the core group."""

    versions: ClassVar[tuple[str, ...]] = ("v1",)
    """The versions that are served, the preferred one first. Objects are stored in that one."""

    other_groups: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Other groups that serve the same objects in a form of their own (`in_group`), each with its version."""

    logged: ClassVar[bool] = False
    """Whether its objects are in the object log alone. Nothing follows from them, and they expire."""

    kind: ClassVar[str]
    """Unique over all groups: record keys name an object's kind by this word alone."""

    singular: ClassVar[str]
    """The kind's name in lower case, unless the kind has another one."""

    plural: ClassVar[str]
    """The singular with its English ending, unless the kind has another one."""

    short_names: ClassVar[tuple[str, ...]] = ()
    """As discovery lists them."""

    cli_names: ClassVar[tuple[str, ...]] = ()
    """Further words that the command line takes."""

    deprecation: ClassVar[str] = ""
    """The warning for readers and writers of its objects: that another kind replaces it."""

    when_none: ClassVar[str] = ""
    """The meaning of an empty list, if that is not plain. The command line prints it."""

    model_module: ClassVar[str] = ""
    """The module of `moorage_schemas.resources` that has its model. It is imported when it is used."""

    namespaced: ClassVar[bool]
    order: ClassVar[int] = AFTER_ALL
    """Discovery and the command line list kinds from low to high, and by kind where it is the same."""

    apply_order: ClassVar[int] = AFTER_ALL
    """`apply` writes kinds that others rest on first, from low to high: a rule before its pods, nodes before what runs
    on them, a policy before what it places."""

    read_only: ClassVar[bool] = False
    """Whether only the services write it."""

    mirrorable: ClassVar[bool] = False
    """Whether a bridge may mirror its objects from a real cluster. Nothing that gives rights here may be."""

    repeatable: ClassVar[bool] = False
    """Whether a manifest may contain a read-only object that equals the present decision."""

    watched: ClassVar[bool] = True
    """Whether its changes can be watched."""

    scaled: ClassVar[bool] = False
    """Whether it has the subresource `scale`, which changes `spec.replicas`."""

    own_subresources: ClassVar[tuple[str, ...]] = ()
    """Further subresources, which only this kind has."""

    status_declared: ClassVar[bool] = False
    """Whether people declare (a part of) its `status`, which is then a subresource."""

    container_subresources: ClassVar[tuple[str, ...]] = ()
    """Kubernetes' subresources that need running containers. Moorage runs none, and answers 501."""

    has_generation: ClassVar[bool] = True
    """Whether its objects show `metadata.generation`, the number of their desired states. As in Kubernetes, those
    without a desired state do not."""

    status_shown: ClassVar[bool] = False
    """Whether its `status` is a subresource although only the services decide it, as Kubernetes' clients expect."""

    in_all: ClassVar[bool] = False
    """Whether `get all` shows it: kubectl's category of that name."""

    in_own_all: ClassVar[bool] = False
    """Whether `moorage get all` shows it as well: targets, policies, and guards of evictions."""

    categories: ClassVar[tuple[str, ...]] = ()
    """Further words that stand for it and for other kinds, as discovery lists them."""

    unknown_fields: ClassVar[UnknownFields] = UnknownFields.KEPT
    field_selectors: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The paths of fields that a `fieldSelector` may name beside the name and the namespace, each with the text that it
    selects by where the field is missing. As in Kubernetes for Kubernetes' kinds."""

    field_aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Further names of those fields in a `fieldSelector`, each with the path that it means."""

    fields_elsewhere: ClassVar[frozenset[str]] = frozenset({"status"})
    """Paths of fields that are used although the model does not have them."""

    counted_status: ClassVar[bool] = False
    """Whether its status counts other objects. It is counted once after many records."""

    built_in: ClassVar[tuple[str, ...]] = ()
    """The names of objects without a namespace that exist without being declared."""

    in_each_namespace: ClassVar[tuple[str, ...]] = ()
    """The names of objects that every namespace has without a declaration."""

    built_in_kept: ClassVar[str] = ""
    """Why a built-in object may not be deleted. Empty if it may, and then exists again."""

    deleted_is_returned: ClassVar[bool] = False
    """Whether the answer to a deletion is the object, as in Kubernetes. Otherwise, it is a status."""

    created_by_update: ClassVar[bool] = False
    """Whether replacing an object that does not exist creates it, as in Kubernetes. Otherwise, the answer is 404."""

    deleted_with_content: ClassVar[bool] = False
    """Whether everything in the namespace of an object's name is deleted with the object."""

    label_names: ClassVar[bool] = False
    """Whether the names of its objects are DNS labels, without dots and at most 63 bytes long."""

    slash_in_names: ClassVar[bool] = False
    """Whether people write the names of its objects with a slash: `eu/eu-1`."""

    columns: ClassVar[tuple[TableColumn, ...]] = (AGE,)
    """The columns of a table of its objects, after the name."""

    api_columns: ClassVar[tuple[TableColumn, ...]] = ()
    """The columns of its tables in the API, after the name, as kubectl shows them. A kind of Kubernetes, Karmada or OCM
    has those that it has there. Empty if they are `columns`."""

    name_comes_last: ClassVar[bool] = False
    """Whether only a wide table shows the name, as its last column: users identify such objects by other columns."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            cls.singular = vars(cls).get("singular", cls.kind.lower())
            ending = "ies" if cls.singular.endswith("y") else "es" if cls.singular.endswith("s") else "s"
            cls.plural = vars(cls).get("plural", cls.singular.removesuffix("y") + ending)

    @property
    def api_versions(self) -> tuple[str, ...]:
        """`group/version` of each version that is served. The core group has no prefix."""
        return tuple(f"{self.group}/{version}" if self.group else version for version in self.versions)

    @property
    def words(self) -> frozenset[str]:
        """Its words on the command line, in lower case."""
        named = (self.kind, self.plural, self.singular, *self.short_names, *self.cli_names)
        return frozenset(word.lower() for word in named)

    @property
    def subresources(self) -> tuple[str, ...]:
        """The subresources of its objects."""
        has_status = self.status_shown or self.status_declared
        return (*(("scale",) if self.scaled else ()), *(("status",) if has_status else ()), *self.own_subresources)

    @property
    def model(self) -> type[ResourceT]:
        """The contract's typed view: the class with the kind's name in `model_module`, or else `Resource`."""
        module, name = (self.model_module, self.kind) if self.model_module else ("meta", "Resource")
        return cast("type[ResourceT]", getattr(importlib.import_module(f"moorage_schemas.resources.{module}"), name))

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes of the records that the kind needs. An index that several kinds name exists once."""
        from moorage.apiserver.kinds.status.kind_indexes import INDEXES

        return INDEXES.get(self.kind, ())

    def validate_metadata(self, metadata: ObjectMeta) -> list[FieldError]:
        """Return the errors in an object's name, namespace, labels and annotations."""
        from moorage.apiserver.rules.validation.core import (
            validate_annotations,
            validate_generate_name,
            validate_metadata,
        )

        generated = validate_generate_name(metadata.generate_name, dns_label=self.label_names)
        found = validate_metadata(
            metadata.name,
            metadata.namespace,
            metadata.labels or {},
            namespaced=self.namespaced,
            dns_label=self.label_names,
        )
        return [*generated, *found, *validate_annotations(metadata.annotations or {})]

    def validate(self, resource: ResourceT, gates: FeatureGates) -> list[FieldError]:
        """Return the errors in the rest of an object."""
        from moorage.apiserver.rules.validation.of_kinds import OBJECTS

        rule = OBJECTS.get(self.kind)
        return rule(resource) if rule is not None else []

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """Return the errors in fields that the typed view does not have, in Kubernetes' order.

        The document has the defaults of its fields.
        """
        from moorage.apiserver.rules.validation.of_kinds import DOCUMENTS, NEW

        rules = (DOCUMENTS.get(self.kind), NEW.get(self.kind) if is_new else None)
        return [error for rule in rules if rule is not None for error in rule(document)]

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """Return the errors in fields that a change may not change.

        `before` is the object as it is shown, and `after` as it is wanted, with the defaults of admission.
        """
        from moorage.apiserver.rules.validation.of_kinds import UPDATES

        rule = UPDATES.get(self.kind)
        return rule(before, after) if rule is not None else []

    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        """Return warnings for the writer of an object that was accepted: the parts that have no effect."""
        return ()

    def created(self, document: Document, gates: FeatureGates) -> Document:
        """Return a new object with the defaults that only creation sets."""
        return document

    def identified(self, document: Document) -> Document:
        """Return a new object, which has its uid now, with the defaults that follow from it."""
        return document

    def taints_of_new(self, resource: ResourceT) -> Sequence[Taint]:
        """Return the taints that a new target gets by default, beside those that it names."""
        return ()

    def changed(self, wanted: Document, shown: Mapping[str, Any]) -> Document:
        """Return the wanted state of an existing object, with the parts that the kind carries over.

        `wanted` is what the writer sent, or what a patch makes of the object. `shown` is the object as it is shown.
        """
        return wanted

    def declared(self, document: Document) -> Document:
        """Return an object without what the services decide."""
        return document if self.status_declared else {k: v for k, v in document.items() if k != "status"}

    def admitted(self, document: Document, rules: Iterable[DedicatedNodes]) -> Document:
        """Return an object with the defaults of admission.

        The document is without what the services decide. An object that exists already gets no rules for dedicated
        nodes. Raises QuantityError if a request or limit is no quantity.
        """
        return document

    def without_decided(self, document: Document, stored: Mapping[str, Any]) -> Document:
        """Return a change without what the services have added to the object that is shown.

        `document` is what is wanted, with the defaults of admission, and `stored` the object as it was declared.
        """
        return document

    def same(self, document: Document, stored: Mapping[str, Any], records: Records) -> Document:
        """Return a change with those parts as they are kept that mean the same, so that they do not count as changed.

        `document` is what is wanted, with the defaults of admission, and `stored` the object as it was declared.
        """
        return document

    def spec_taints(self, resource: ResourceT) -> Sequence[Taint] | None:
        """Return the taints that the writer of a target wants. None for a kind that has no taints."""
        return None

    def taints(self, resource: ResourceDeclared, records: Records) -> TargetTainted | None:
        """Return the taints of a target that are shown. None if nothing is known of them."""
        return None

    def refusal(self, name: str, change: str) -> str:
        """Return why an object may not be changed or deleted. Empty if it may. `change` is `changed` or `deleted`."""
        is_kept = change == "deleted" and name in {*self.built_in, *self.in_each_namespace}
        return self.built_in_kept if is_kept else ""

    def is_held(self, document: Mapping[str, Any]) -> bool:
        """Return whether an object that is being deleted has to stay, apart from its finalizers."""
        return False

    def is_heartbeat(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Return whether a change is only a sign of life, which is not audited.

        `before` and `after` are the object as it is declared.
        """
        return False

    def withheld(
        self, before: Mapping[str, Any], wanted: Mapping[str, Any], document: Mapping[str, Any]
    ) -> Iterable[str]:
        """Return notes for the writer on parts of an object that a change removes, and that stay.

        `before` is the object as it was shown, `wanted` as the writer wants it, and `document` as it is shown now.
        """
        return ()

    def notes(self, document: Mapping[str, Any], sent: Mapping[str, Any], records: Records) -> Iterable[str]:
        """Return notes for the writer on parts that were not applied, or do not exist.

        `document` is the object as it is shown now, and `sent` the object or the patch that was sent.
        """
        return ()

    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        """Return an object as the API shows it, without a resource version. None if there is none."""
        resource = records.resources.get(object_id.key)
        if resource is None:
            return self.built_in_object(object_id, records) if self.is_built_in(object_id, records) else None
        status = self.status(resource, records)
        return {**resource.object, **({"status": status} if status is not None else {})}

    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        """Return the status of a declared object that is derived from other records. None if there is none."""
        return None

    def implied(self, records: Records) -> Iterable[str]:
        """Return the names of objects without a namespace that others imply, apart from `built_in`."""
        return ()

    def is_built_in(self, object_id: ObjectId, records: Records) -> bool:
        """Return whether an object exists undeclared: one of `built_in`, or of `in_each_namespace` in a namespace."""
        if object_id.name in self.built_in:
            return True
        if object_id.name not in self.in_each_namespace:
            return False
        from moorage.apiserver.kinds.status.namespaces import exists

        return exists(object_id.namespace, records)

    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        """Return an undeclared object of `is_built_in`. A kind with built-in objects overrides this."""
        raise NotImplementedError(f"{self.kind} has no built-in object {object_id.name}")

    def converted(self, document: Mapping[str, Any], version: str) -> Mapping[str, Any]:
        """Return a stored object in the words of one of the kind's versions."""
        api_version = f"{self.group}/{version}" if self.group else version
        return document if document.get("apiVersion") == api_version else {**document, "apiVersion": api_version}

    def in_group(self, document: Mapping[str, Any], api_version: str) -> Mapping[str, Any]:
        """Return a stored object in the form of one of the `other_groups`. A kind with other groups overrides this."""
        raise NotImplementedError(f"{self.kind} has no form in {api_version}")

    def stored(self, document: Document) -> Document:
        """Return an object that was written in any version, as it is stored."""
        return {**document, "apiVersion": self.api_versions[0]}

    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        """Yield the sections of `describe` after the name, labels and annotations."""
        yield from as_declared(found)

    def listed(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the objects of a list that tables show, in their order."""
        return items

    def api_name(self, typed: str) -> str:
        """Return the name in the API of an object that a person has named."""
        return typed

    def shown_name(self, name: str) -> str:
        """Return the name of an object as people read it. They may type it too."""
        return name

    def flaws(self) -> Iterable[str]:
        """Yield flaws of the kind's own attributes. A kind with a flaw is refused when it is discovered."""
        missing = [name for name in ("kind", "namespaced") if not hasattr(self, name)]
        yield from (f"it has no {name}" for name in missing)
        if type(self).model is Kind.model and not (self.model_module or isinstance(self, Untyped)):
            yield "it has no model_module"
        if not self.versions:
            yield "it has no version"
        built_in = (*self.built_in, *self.in_each_namespace)
        if built_in and type(self).built_in_object is Kind.built_in_object:
            yield f"it names the built-in object {built_in[0]} and has no built_in_object"
        if self.other_groups and type(self).in_group is Kind.in_group:
            yield f"it names the group {self.other_groups[0][0]} and has no in_group"


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One kind at one of its API versions, in its own group or another one."""

    definition: Kind[Any]
    version: str
    other_group: str = ""
    """One of the kind's `other_groups`. Empty for its own."""

    @property
    def group(self) -> str:
        """The API group. Empty for the core group."""
        return self.other_group or self.definition.group

    @property
    def kind(self) -> str:
        """The kind's name as objects have it: `Node`."""
        return self.definition.kind

    @property
    def plural(self) -> str:
        """The kind's name as paths have it: `nodes`."""
        return self.definition.plural

    @property
    def namespaced(self) -> bool:
        """Whether its objects are in namespaces."""
        return self.definition.namespaced

    @property
    def read_only(self) -> bool:
        """Whether only the services write its objects."""
        return self.definition.read_only

    @property
    def api_version(self) -> str:
        """`group/version`. The core group has no prefix."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_stored(self) -> bool:
        """Whether objects are stored in this version, and shown in it as they are stored."""
        definition = self.definition
        if self.other_group:
            return False
        return self.version == definition.versions[0] and type(definition).converted is Kind.converted

    @property
    def verbs(self) -> list[str]:
        """The verbs that discovery lists."""
        reading = ["get", "list", *(["watch"] if self.definition.watched else [])]
        if self.read_only:
            return sorted(["create", "patch", *reading]) if self.definition.repeatable else reading
        together = [] if self.definition.deleted_with_content else ["deletecollection"]
        return sorted(["create", "delete", *together, "patch", "update", *reading])

    @property
    def singular(self) -> str:
        """The kind's name in messages about one object: `node`."""
        return self.kind.lower()

    @property
    def resource(self) -> str:
        """`plural.group`, or the plural alone in the core group, as in kubectl's messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def called(self, name: str) -> str:
        """Return the name of an object in kubectl's messages: `node/n1`, `deployment.apps/web`."""
        return f"{self.singular}.{self.group}/{name}" if self.group else f"{self.singular}/{name}"

    def converted(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a stored object as this version shows it."""
        if self.other_group:
            return self.definition.in_group(document, self.api_version)
        return self.definition.converted(document, self.version)


class Untyped(Kind["Resource"]):
    """A kind that is kept as it comes, unless its `model_module` has a typed view of it."""


class OwnKind(Kind[ResourceT]):
    """A kind of Moorage that configures the whole fleet."""

    group: ClassVar[str] = "moorage.io"
    versions: ClassVar[tuple[str, ...]] = ("v1alpha1",)
    namespaced: ClassVar[bool] = False
    unknown_fields: ClassVar[UnknownFields] = UnknownFields.REFUSED


class View(Untyped):
    """A kind that only the services write. The API shows it."""

    group: ClassVar[str] = "moorage.io"
    versions: ClassVar[tuple[str, ...]] = ("v1alpha1",)
    read_only: ClassVar[bool] = True
    made_from: ClassVar[str] = ""
    """The short name of the topic whose records it shows."""

    kept: ClassVar[bool] = True
    """Whether the gateways keep its objects. Otherwise they read the records from Kafka for each request."""

    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        """Return the objects that a record shows, of a view that is made of the records of a topic.

        The record is as it is now, or as it was before, and may be a row (`Records`).
        """
        from moorage.apiserver.kinds.status.records import ObjectId

        return (ObjectId(self.kind, namespace, name) for namespace, name in self.places(key, record))

    def places(self, key: str, record: Model) -> Iterable[tuple[str, str]]:
        """Return the namespaces and names of `objects`."""
        return ()

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.index import ViewIndex

        key = records.index(ViewIndex).origins.get(object_id)
        status = None if key is None else self.view_status(object_id, key, records)
        if key is None or status is None:
            return None
        metadata: Document = {"name": object_id.name}
        if object_id.namespace:
            metadata["namespace"] = object_id.namespace
        if annotations := self.view_annotations(key, records):
            metadata["annotations"] = annotations
        shown: Document = {"apiVersion": self.api_versions[0], "kind": self.kind, "metadata": metadata}
        spec = self.view_spec(key)
        return {**shown, "status": status, **({"spec": spec} if spec else {})}

    def view_status(self, object_id: ObjectId, key: str, records: Records) -> Document | None:
        """Return the status of a view, from the record behind it. None if the record was deleted."""
        return records.document(self.made_from, key)

    def view_annotations(self, key: str, records: Records) -> dict[str, str]:
        """Return the annotations of a view, from the key of the record behind it. Empty if it has none."""
        return {}

    def view_spec(self, key: str) -> Document:
        """Return the spec of a view, from the key of the record behind it. Empty if it has none."""
        return {}


def discovered() -> tuple[Kind[Any], ...]:
    """Return every kind, in their order.

    Raises:
        TypeError: a module of the package has no `KIND`, or one that has a flaw, or whose name another one has.
    """
    return _kinds_in(_folders())


def declared() -> tuple[Kind[Any], ...]:
    """Return the kinds that people declare, in their order."""
    return tuple(kind for kind in discovered() if not kind.read_only)


def logged_kinds() -> frozenset[str]:
    """Return the names of the kinds whose objects are in the object log alone."""
    return _indexed(discovered()).logged


def named(kind: str) -> Kind[Any] | None:
    """Return the kind of that name, as record keys and objects have it. None if there is none."""
    return _indexed(discovered()).by_name.get(kind)


def called(word: str) -> Kind[Any] | None:
    """Return the kind that a word of the command line names: `nodes`, `node`, `no` or `Node`. None if none has it."""
    return _indexed(discovered()).by_word.get(word.lower())


def _in_module(path: str) -> tuple[Any, ...]:
    module = importlib.import_module(path)
    return tuple(getattr(module, "KINDS", ())) or (getattr(module, "KIND", None),)


class _Indexed(NamedTuple):
    """The kinds by their names and words, and the names of those whose objects are in the object log alone."""

    by_name: dict[str, Kind[Any]]
    by_word: dict[str, Kind[Any]]
    logged: frozenset[str]


@cache
def _indexed(kinds: tuple[Kind[Any], ...]) -> _Indexed:
    words = {word: kind for kind in kinds for word in kind.words}
    return _Indexed({one.kind: one for one in kinds}, words, frozenset(one.kind for one in kinds if one.logged))


def _folders() -> tuple[str, ...]:
    return tuple(importlib.import_module(PACKAGE).__path__)


@cache
def _kinds_in(folders: tuple[str, ...]) -> tuple[Kind[Any], ...]:
    """Return the kinds of the package's folders, which are searched once."""
    found: dict[str, Kind[Any]] = {}
    for module in pkgutil.iter_modules(folders):
        path = f"{PACKAGE}.{module.name}"
        if module.ispkg or path == __name__:
            continue
        for kind in _in_module(path):
            if not isinstance(kind, Kind):
                raise TypeError(f"{path} must have a KIND that is a Kind, not {kind!r}")
            if flaw := next(iter(kind.flaws()), ""):
                raise TypeError(f"{path}: {flaw}")
            for other in found.values():
                if kind.kind == other.kind or (kind.group, kind.plural) == (other.group, other.plural):
                    raise TypeError(f"{path}: another kind has the name {kind.kind} or {kind.plural}")
                if shared := sorted(kind.words & other.words):
                    raise TypeError(f"{path}: {other.kind} has the same word for the command line: {shared[0]}")
            found[kind.kind] = kind
    return tuple(sorted(found.values(), key=lambda kind: (kind.order, kind.kind)))
