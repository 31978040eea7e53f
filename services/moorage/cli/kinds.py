"""Words of the command line for kinds: of the contract's table, and Moorage's own read-only ones."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.cli.errors import CliError
from moorage_schemas.resources.table import KINDS, ResourceKind


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


_SHORT = {"ClusterTaintPolicy": ("ctp",), "EvictionPause": ("ep",), "MachineSet": ("ms",)}
"""Words of this command line, beside those of the contract's table."""


def _of(row: ResourceKind) -> Kind:
    return Kind(
        api_version=row.api_versions[0],
        kind=row.kind,
        plural=row.plural,
        singular=row.kind.lower(),
        short_names=(*row.short_names, row.singular, *_SHORT.get(row.kind, ())),
        namespaced=row.namespaced,
    )


_MOORAGE = "moorage.io/v1alpha1"


def _own(kind: str, plural: str, *short: str, namespaced: bool) -> Kind:
    return Kind(_MOORAGE, kind, plural, kind.lower(), short, namespaced, read_only=True)


OWN_KINDS: tuple[Kind, ...] = (
    _own("Placement", "placements", "pl", namespaced=True),
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
)
"""What the services have decided, served by the gateway to read."""

ALL_KINDS: tuple[Kind, ...] = (*(_of(row) for row in KINDS), *OWN_KINDS)

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
        version = kind.api_version.rpartition("/")[2]
        if not dot or rest in {kind.group, f"{version}.{kind.group}", version}:
            return kind
    raise CliError(f'the server doesn\'t have a resource type "{word}"')


def of_object(api_version: str, kind: str) -> Kind | None:
    """The kind that a manifest names; None when Moorage does not know it, or only shows it."""
    for known, row in zip(ALL_KINDS, KINDS, strict=False):
        if kind == row.kind and api_version in row.api_versions:
            if api_version == known.api_version:
                return known
            return Kind(api_version, known.kind, known.plural, known.singular, known.short_names, known.namespaced)
    return None


def words() -> str:
    """The plurals of all kinds, for messages."""
    return ", ".join(kind.plural for kind in ALL_KINDS)
