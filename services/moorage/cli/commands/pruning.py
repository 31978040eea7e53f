"""`apply --prune`: deletes objects that were applied before and are not in the files now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from moorage.cli.api import kinds, last_applied
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.manifests import Manifest
from moorage.cli.errors import UsageError
from moorage.kinds.kind import ServedKind

_USUAL: Final = (
    *("core/v1/ConfigMap", "core/v1/Pod", "core/v1/Service", "batch/v1/Job"),
    *("apps/v1/DaemonSet", "apps/v1/Deployment", "apps/v1/StatefulSet", "core/v1/Namespace"),
)
"""The kinds that kubectl prunes, as far as they are served. Namespaces come last, because they take all with them."""

_PARTS: Final = 3


class PruneScope(NamedTuple):
    """What is not pruned, and where to look for what is."""

    items: Sequence[Manifest]
    """What is applied now."""

    namespace: str
    """The namespace of objects that name none."""

    selector: str
    """A label selector. Empty for all objects."""


def prune(
    client: Client, kept: PruneScope, allowed: Sequence[str], parameters: Mapping[str, str] | None
) -> Iterator[tuple[ServedKind, str, JsonObject]]:
    """Delete the objects of the namespaces of the files that were applied before, and yield each.

    Args:
        client: the gateway.
        kept: what stays.
        allowed: `GROUP/VERSION/KIND` of each kind. Empty for the usual ones.
        parameters: the query parameters of each delete. None to delete nothing.

    Raises:
        UsageError: a kind is not served.
    """
    named = {(item.kind.kind, item.namespace(kept.namespace), item.name) for item in kept.items if item.kind}
    places = {item.namespace(kept.namespace) for item in kept.items if item.kind and item.kind.namespaced}
    for kind in [_kind(text) for text in allowed or _USUAL]:
        for place in sorted(places) if kind.namespaced else [""]:
            for found in client.list(kind, place, kept.selector).get("items") or []:
                name = str(found["metadata"]["name"])
                if last_applied.is_applied(found) and (kind.kind, place, name) not in named:
                    if parameters is not None:
                        client.delete(kind, place, name, options=parameters)
                    yield kind, name, found


def _kind(text: str) -> ServedKind:
    parts = text.split("/")
    if len(parts) == _PARTS:
        group = "" if parts[0] == "core" else f"{parts[0]}/"
        found = kinds.of_object(f"{group}{parts[1]}", parts[2])
        if found is not None:
            return found
    raise UsageError(f"invalid GroupVersionKind format: {text}, please follow <group/version/kind>")
