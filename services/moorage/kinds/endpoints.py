"""`Endpoints` (v1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from moorage.core.apimachinery.addresses import with_port
from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, NONE, Object, TableColumn, of
from moorage.kinds.printing.kubernetes import first_of

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError


def _addresses(found: Object) -> str:
    subsets = found.get("subsets")
    return first_of(list(_each(subsets))) if isinstance(subsets, list) and subsets else NONE


def _each(subsets: list[Any]) -> Iterator[str]:
    for subset in subsets:
        addresses = [str(one.get("ip", "")) for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        yield from (with_port(one, port.get("port", 0)) for port in ports for one in addresses)
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

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.endpoints import validate_endpoints

        return validate_endpoints(document) if is_new else []

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`. What has not changed may have been accepted once."""
        from moorage.core.admission.validation.endpoints import validate_endpoints

        return [] if before.get("subsets") == after.get("subsets") else validate_endpoints(after)


KIND = EndpointsKind()
