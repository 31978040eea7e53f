"""`EndpointSlice` (discovery.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.kubernetes import first_of

_OLD: Final = "deprecatedTopology"
_UNSET: Final = "<unset>"


def _ports(found: Object) -> str:
    ports = found.get("ports")
    named = [_port(one) for one in ports] if isinstance(ports, list) else []
    return first_of(named) or _UNSET


def _port(port: Mapping[str, Any]) -> str:
    number = port.get("port")
    if number is not None:
        return str(number)
    return str(port.get("name", ""))


def _addresses(found: Object) -> str:
    endpoints = found.get("endpoints")
    parts = endpoints if isinstance(endpoints, list) else []
    return first_of([str(one) for part in parts for one in part.get("addresses") or ()]) or _UNSET


class EndpointSliceKind(StoredKind):
    """A part of the addresses of a service. Moorage routes no traffic."""

    group = "discovery.k8s.io"
    kind = "EndpointSlice"
    plural = "endpointslices"
    singular = "endpointslice"
    order = 350
    api_columns = (
        TableColumn("AddressType", text("addressType", default="")),
        TableColumn("Ports", of(_ports)),
        TableColumn("Endpoints", of(_addresses)),
        AGE,
    )

    def declared(self, document: dict[str, Any]) -> dict[str, Any]:
        """See `Kind`. What an older version of the kind said of nodes and zones is dropped."""
        found = super().declared(document)
        endpoints = found.get("endpoints")
        if not isinstance(endpoints, list):
            return found
        return {**found, "endpoints": [{key: one[key] for key in one if key != _OLD} for one in endpoints]}


KIND = EndpointSliceKind()
