"""Words of the command line for kinds: those that people declare, and those that the services write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from moorage.cli.errors import CliError
from moorage.kinds import kind as definitions
from moorage.kinds import placement_decision


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
    repeatable: bool = False
    """Whether a manifest may hold a read-only object."""

    apply_order: int = definitions.AFTER_ALL
    """`apply` writes kinds from low to high."""

    in_all: bool = False
    """Whether `get all` shows it."""

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


DECISION = placement_decision.KIND.kind
"""What the services write, and manifests may repeat."""


def all_kinds() -> tuple[Kind, ...]:
    """Every kind, in the order of discovery."""
    return _all_of(definitions.discovered())


def workloads() -> tuple[Kind, ...]:
    """What `all` means, as kubectl's category of that name: pods and what makes them."""
    return tuple(kind for kind in all_kinds() if kind.in_all)


@cache
def _all_of(found: tuple[definitions.Kind[Any], ...]) -> tuple[Kind, ...]:
    return tuple(_of(one) for one in found)


def _of(one: definitions.Kind[Any]) -> Kind:
    return Kind(
        api_version=one.api_versions[0],
        kind=one.kind,
        plural=one.plural,
        singular=one.kind.lower(),
        short_names=(*one.short_names, one.singular, *one.cli_names),
        namespaced=one.namespaced,
        read_only=one.read_only,
        repeatable=one.repeatable,
        apply_order=one.apply_order,
        in_all=one.in_all,
        older=one.api_versions[1:],
    )


@cache
def _by_word(known: tuple[Kind, ...]) -> dict[str, Kind]:
    return {
        word.lower(): kind
        for kind in reversed(known)
        for word in (*kind.short_names, kind.singular, kind.plural, kind.kind)
    }


def find(word: str) -> Kind:
    """The kind of `nodes`, `node`, `no`, `Node`, `deployments.apps`, `deployments.v1.apps`.

    Raises:
        CliError: no kind has that name, in kubectl's words.
    """
    plain, dot, rest = word.partition(".")
    kind = _by_word(all_kinds()).get(plain.lower())
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
    for known in all_kinds():
        named = kind == known.kind and api_version in {known.api_version, *known.older}
        if named and (not known.read_only or known.repeatable):
            return known if api_version == known.api_version else replace(known, api_version=api_version)
    return None


def words() -> str:
    """The plurals of all kinds, for messages."""
    return ", ".join(kind.plural for kind in all_kinds())
