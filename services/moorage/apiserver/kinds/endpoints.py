"""`Endpoints` (v1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Object, TableColumn, of
from moorage.apiserver.kinds.printing.kubernetes import first_of


def _addresses(found: Object) -> str:
    subsets = found.get("subsets")
    return first_of(list(_each(subsets))) if isinstance(subsets, list) and subsets else NONE


def _each(subsets: list[Any]) -> Iterator[str]:
    for subset in subsets:
        addresses = [str(one.get("ip", "")) for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        hosts = [f"[{one}]" if ":" in one else one for one in addresses]
        yield from (f"{host}:{port.get('port', 0)}" for port in ports for host in hosts)
        if not ports:
            yield from addresses


class EndpointsKind(StoredKind):
    """The addresses of a service, in the form that came before the endpoint slice. Moorage routes no traffic."""

    kind = "Endpoints"
    plural = "endpoints"
    singular = "endpoints"
    short_names = ("ep",)
    order = 111
    has_generation = False
    deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    api_columns = (TableColumn("Endpoints", of(_addresses)), AGE)


KIND = EndpointsKind()
