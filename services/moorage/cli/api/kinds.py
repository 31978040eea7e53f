"""Words of the command line for kinds: of the contract's table, and Moorage's own read-only ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from moorage.cli.errors import CliError
from moorage_schemas.resources.names import KIND_NAMES, KindNames


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind as the gateway serves it."""

    api_version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    read_only: bool = False
    older: tuple[str, ...] = ()
    """Other API versions of it that are served, with their group."""

    @property
    def group(self) -> str:
        """The API group; empty for the core one."""
        return self.api_version.partition("/")[0] if "/" in self.api_version else ""

    @property
    def resource(self) -> str:
        """`plural.group`, or the plural alone in the core group, as kubectl's messages have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def called(self, name: str) -> str:
        """`node/n1`, `deployment.apps/web`: an object as kubectl's messages name it."""
        return f"{self.singular}.{self.group}/{name}" if self.group else f"{self.singular}/{name}"


DECISION = "PlacementDecision"
"""What the services write, and manifests may repeat."""

_SHORT = {"ClusterTaintPolicy": ("ctp",), "EvictionPause": ("ep",), "MachineSet": ("ms",)}
"""Words of this command line, beside those of the contract's table."""


def _of(row: KindNames) -> Kind:
    return Kind(
        api_version=row.api_versions[0],
        kind=row.kind,
        plural=row.plural,
        singular=row.kind.lower(),
        short_names=(*row.short_names, row.singular, *_SHORT.get(row.kind, ())),
        namespaced=row.namespaced,
        older=row.api_versions[1:],
    )


_MOORAGE = "moorage.io/v1alpha1"


def _own(kind: str, plural: str, *short: str, namespaced: bool) -> Kind:
    return Kind(_MOORAGE, kind, plural, kind.lower(), short, namespaced, read_only=True)


OWN_KINDS: tuple[Kind, ...] = (
    _own("WorkloadPlacement", "workloadplacements", "wp", "pl", namespaced=True),
    _own("Binding", "bindings", "bind", namespaced=True),
    _own("Eviction", "evictions", "ev", "evict", namespaced=True),
    _own("Condition", "conditions", "cond", namespaced=False),
    _own("Taint", "taints", namespaced=False),
    _own("Timer", "timers", namespaced=False),
    _own("Zone", "zones", namespaced=False),
    _own("Budget", "budgets", namespaced=False),
    Kind(
        "work.karmada.io/v1alpha2",
        "ResourceBinding",
        "resourcebindings",
        "resourcebinding",
        ("rb",),
        namespaced=True,
        read_only=True,
    ),
    Kind(
        "cluster.open-cluster-management.io/v1beta1",
        DECISION,
        "placementdecisions",
        "placementdecision",
        ("pd",),
        namespaced=True,
        read_only=True,
        older=("cluster.open-cluster-management.io/v1alpha1",),
    ),
)
"""What the services have decided, served by the gateway to read."""

ALL_KINDS: tuple[Kind, ...] = (*(_of(row) for row in KIND_NAMES), *OWN_KINDS)

WORKLOADS: tuple[Kind, ...] = tuple(
    kind for kind in ALL_KINDS if not kind.read_only and (kind.kind == "Pod" or kind.group in {"apps", "batch"})
)
"""What `all` means, as kubectl's category of that name: pods and what makes them."""

_BY_WORD = {
    word.lower(): kind
    for kind in reversed(ALL_KINDS)
    for word in (*kind.short_names, kind.singular, kind.plural, kind.kind)
}


def find(word: str) -> Kind:
    """The kind of `nodes`, `node`, `no`, `Node`, `deployments.apps`, `deployments.v1.apps`.

    Raises:
        CliError: no kind has that name, in kubectl's words.
    """
    plain, dot, rest = word.partition(".")
    kind = _BY_WORD.get(plain.lower())
    if kind is not None:
        if not dot or rest == kind.group:
            return kind
        for api_version in (kind.api_version, *kind.older):
            version = api_version.rpartition("/")[2]
            if rest in {f"{version}.{kind.group}", version}:
                return replace(kind, api_version=api_version)
    raise CliError(f'the server doesn\'t have a resource type "{word}"')


def of_object(api_version: str, kind: str) -> Kind | None:
    """The kind that a manifest names; None when Moorage does not know it, or only shows it."""
    for known in ALL_KINDS:
        named = kind == known.kind and api_version in {known.api_version, *known.older}
        if named and (not known.read_only or kind == DECISION):
            return known if api_version == known.api_version else replace(known, api_version=api_version)
    return None


def words() -> str:
    """The plurals of all kinds, for messages."""
    return ", ".join(kind.plural for kind in ALL_KINDS)
