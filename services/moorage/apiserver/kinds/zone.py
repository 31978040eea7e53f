"""`Zone` (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.node import node_status, zone_name, zone_state
from moorage.apiserver.kinds.printing.columns import NONE, Object, TableColumn, count, of, text
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, taint_texts, time_and_age
from moorage.decide.disruption import object_names
from moorage.decide.kubernetes.durations import rate_text
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.base import Model


_NUMBERS: Final = frozenset({"rate", "tokens"})


def _rate(found: Object) -> str:
    rate = at(found, "status", "rate")
    return NONE if rate is None else rate_text(rate)


def _next(found: Object) -> str:
    queue = at(found, "status", "queue") or []
    return str(queue[0].get("target")) if queue else NONE


class ZoneKind(View):
    """A zone: its state and the rate of evictions from it."""

    kind = "Zone"
    plural = "zones"
    namespaced = False
    slash_in_names = True
    order = 2080
    columns = (
        TableColumn("STATE", of(zone_state)),
        TableColumn("NODES", text("status", "nodes", default="0")),
        TableColumn("NOT-READY", text("status", "notReady", default="0")),
        TableColumn("RATE", of(_rate)),
        TableColumn("WAITING", text("status", "waiting", default="0")),
        TableColumn("NEXT", of(_next)),
        TableColumn("TOKENS", text("status", "tokens"), wide=True),
        TableColumn("GRANTED", count("status", "granted"), wide=True),
    )
    made_from = "zones"

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        status = found.get("status") or {}
        yield Pair("State", zone_state(found))
        if status.get("stopped"):
            yield Pair("Stopped", "every zone is fully disrupted: no node gets a taint that evicts")
        yield Pair("Nodes", f"{status.get('nodes', 0)}, of which {status.get('notReady', 0)} are not ready")
        yield Pair("Rate", _rate(found))
        yield Pair("Tokens", f"{status.get('tokens', 0)} at {status.get('tokensTime') or '<unknown>'}")
        granted = [[str(one.get("target")), time_and_age(one.get("since"), now)] for one in status.get("granted") or []]
        yield Rows("Granted", ["TARGET", "NOT READY SINCE"], granted)
        waiting = [[str(one.get("target")), time_and_age(one.get("since"), now)] for one in status.get("queue") or []]
        yield Rows(f"Waiting ({status.get('waiting', 0)})", ["TARGET", "NOT READY SINCE"], waiting)
        members = [
            [str(at(one, "metadata", "name")), node_status(one), ",".join(taint_texts(at(one, "spec", "taints")))]
            for one in related.list("Node")
            if zone_name(one) == status.get("zone")
        ]
        yield Rows(f"Nodes of this zone ({len(members)})", ["NAME", "STATUS", "TAINTS"], members)

    def api_name(self, typed: str) -> str:
        """`eu.eu-1` for `eu/eu-1`, because a name in the API must not contain a slash."""
        return object_names.object_name(object_names.zone_of_object(typed))

    def shown_name(self, name: str) -> str:
        """`eu/eu-1` for `eu.eu-1`."""
        zone = object_names.zone_of_object(name)
        return name if zone == "/" else zone

    def view_status(self, object_id: ObjectId, key: str, records: Records) -> Document | None:
        """See `View`. A rate without limit is the text `inf`, because JSON has no such number."""
        status = super().view_status(object_id, key, records)
        if status is None:
            return None
        return {name: "inf" if name in _NUMBERS and value == "Infinity" else value for name, value in status.items()}

    def view_spec(self, key: str) -> Document:
        """See `View`. The region and the zone."""
        region, _, own = key.partition("/")
        return {"region": region, "zone": own}

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.records import ObjectId

        yield ObjectId(self.kind, "", object_names.object_name(key))


KIND = ZoneKind()
