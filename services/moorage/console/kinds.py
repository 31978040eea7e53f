"""The kinds that the API serves, as its discovery lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moorage.console.api import ApiClient, api_path
from moorage.console.host import PageError
from moorage.decide.disruption.object_names import shown_zone, zone_of_object
from moorage.decide.kubernetes.attributes import Attributes

_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_WRITING: Final = frozenset({"update", "delete"})


class ObjectName(NamedTuple):
    """The name of an object of a fleet."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`Kind/namespace/name`."""
        return f"{self.kind}/{self.namespace}/{self.name}"


_DEFINITIONS: Final = "apiextensions.k8s.io"


@dataclass(frozen=True, slots=True)
class ApiKind:
    """A kind that the API serves."""

    kind: str
    plural: str
    group: str
    version: str
    namespaced: bool
    verbs: frozenset[str]
    order: int
    """Its place among all kinds."""

    @property
    def api_version(self) -> str:
        """`group/version`. The core group has no prefix."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_watched(self) -> bool:
        """Whether its changes can be followed. Definitions of kinds never change."""
        return "watch" in self.verbs and self.group != _DEFINITIONS

    @property
    def read_only(self) -> bool:
        """Whether only the services write it."""
        return not self.verbs & _WRITING

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of its objects, or of one of them."""
        root = ("apis", self.group) if self.group else ("api",)
        within = ("namespaces", namespace) if namespace else ()
        return api_path(*root, self.version, *within, self.plural, name, subresource)

    def asked(self, verb: str, namespace: str = "", name: str = "", subresource: str = "") -> Attributes:
        """Return the attributes of a request for its objects."""
        return Attributes(verb, self.group, self.version, self.plural, subresource, namespace, name)

    def shown_name(self, name: str) -> str:
        """Return the name of an object as people read it: `eu/eu-1` for the zone `eu.eu-1`."""
        return shown_zone(zone_of_object(name)) if self.kind == "Zone" else name


class Kinds:
    """The kinds by their names. They are read once, because they do not change while a gateway runs."""

    def __init__(self) -> None:
        self._by_kind: dict[str, ApiKind] = {}

    async def load(self, api: ApiClient) -> None:
        """Read them, if that is not done yet. Raises PageError if the API does not answer."""
        if self._by_kind:
            return
        found: dict[str, ApiKind] = {}
        for path in ("/api", "/apis"):
            for group in (await api.read(path, accept=_DISCOVERY))["items"]:
                for version in group["versions"]:
                    for one in version["resources"]:
                        made = _kind(group["metadata"].get("name", ""), version["version"], one, len(found))
                        if {"get", "list"} <= made.verbs:
                            found.setdefault(made.kind, made)
        self._by_kind = found

    @property
    def watched(self) -> list[ApiKind]:
        """The kinds whose changes can be followed, in their order."""
        return [one for one in self._by_kind.values() if one.is_watched]

    def has(self, kind: str) -> bool:
        """Return whether the API serves a kind."""
        return kind in self._by_kind

    def named(self, kind: str) -> ApiKind:
        """Return the kind of a name. Raises PageError: 404 if it does not exist."""
        found = self._by_kind.get(kind)
        if found is None:
            raise PageError(404, f"kind: invalid value {kind[:63]!r}: expected a kind that the API serves")
        return found

    def of_plural(self, plural: str) -> ApiKind:
        """Return the kind of a plural. Raises PageError: 404 if it does not exist."""
        found = next((one for one in self._by_kind.values() if one.plural == plural), None)
        if found is None:
            raise PageError(404, f"the server doesn't have a resource type {plural[:63]!r}")
        return found

    def called(self, word: str) -> ApiKind | None:
        """Return the kind whose name in lower case is this word. None if it does not exist."""
        return next((one for one in self._by_kind.values() if one.kind.lower() == word), None)


def _kind(group: str, version: str, found: dict[str, Any], order: int) -> ApiKind:
    return ApiKind(
        kind=str(found["responseKind"]["kind"]),
        plural=str(found["resource"]),
        group=group,
        version=version,
        namespaced=found["scope"] == "Namespaced",
        verbs=frozenset(found["verbs"]),
        order=order,
    )


NODE: Final = "Node"
CLUSTER: Final = "Cluster"
MANAGED_CLUSTER: Final = "ManagedCluster"
TARGETS: Final = (NODE, CLUSTER, MANAGED_CLUSTER)
BINDING: Final = "Binding"
EVENT: Final = "Event"
EVICTION: Final = "Eviction"
PLACED: Final = "WorkloadPlacement"
TAINT: Final = "Taint"
ZONE: Final = "Zone"
