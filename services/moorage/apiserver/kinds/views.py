"""Records of the services as read-only kinds (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    NONE,
    Object,
    TableColumn,
    count,
    of,
    reference_text,
    since,
    target,
    text,
)
from moorage.apiserver.kinds.printing.sections import Fields, Pair, Related, Rows, Section, taint_texts, time_and_age
from moorage.decide.disruption import object_names
from moorage.decide.kubernetes.durations import age, rate_text
from moorage.decide.kubernetes.object_texts import node_status, taint_text, until, zone_name, zone_state
from moorage.decide.kubernetes.unstructured import at, name_of
from moorage_schemas.resources.names import DEFAULT_NAMESPACE, TRACE_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.base import Model


class PairView(View):
    """A view of records about a workload on a target: `Pod/default/web-0|Node/n1|3` is `web-0:node.n1:3`."""

    namespaced: ClassVar[bool] = True

    @override
    def places(self, key: str, record: Model) -> Iterable[tuple[str, str]]:
        from moorage_schemas.keys import ResourceKey

        workload, on, *rest = key.split("|")
        kind, namespace, name, _ = ResourceKey.parse(workload)
        parts = (object_names.workload_name(kind, name), object_names.target_prefix(on), *rest)
        yield namespace or DEFAULT_NAMESPACE, ":".join(parts)


class BindingKind(PairView):
    """The binding of a workload to a target."""

    kind = "Binding"
    cli_names = ("bind",)
    order = 2010
    columns = (
        TableColumn("WORKLOAD", target("status", "workload")),
        TableColumn("TARGET", target("status", "target")),
        TableColumn("AGE", since("status", "boundTime")),
        TableColumn("OWNER", target("status", "owner"), wide=True),
        TableColumn("GENERATION", text("status", "generation"), wide=True),
    )
    made_from = "bindings"


class BudgetKind(View):
    """The present counts of a budget of evictions."""

    kind = "Budget"
    namespaced = False
    order = 2020
    columns = (
        TableColumn("ALLOWED", text("status", "allowed", default="0")),
        TableColumn("UNDER-WAY", text("status", "inProgress", default="0")),
        TableColumn("IN-WINDOW", text("status", "inWindow", default="0")),
        TableColumn("HELD", text("status", "held", default="0")),
        TableColumn("COUNTED", since("status", "countedTime")),
        TableColumn("EXPECTED", text("status", "expected", default="0"), wide=True),
        TableColumn("HEALTHY", text("status", "healthy", default="0"), wide=True),
        TableColumn("TOKENS", text("status", "tokens"), wide=True),
    )
    made_from = "budgets"

    @override
    def places(self, key: str, record: Model) -> Iterable[tuple[str, str]]:
        # A name is `poddisruptionbudget.shop.web` or `resource-eviction-rate`.
        from moorage_schemas.keys import ResourceKey

        if "/" not in key:
            yield "", key
            return
        kind, namespace, name, _ = ResourceKey.parse(key)
        yield "", ".".join(filter(None, (kind.lower(), namespace, name)))


class ConditionKind(View):
    """One condition of a target."""

    kind = "Condition"
    cli_names = ("cond",)
    namespaced = False
    order = 2030
    columns = (
        TableColumn("TARGET", target("status", "target")),
        TableColumn("TYPE", text("status", "type")),
        TableColumn("STATUS", text("status", "status")),
        TableColumn("REASON", text("status", "reason")),
        TableColumn("SINCE", since("status", "lastTransitionTime")),
        TableColumn("HEARTBEAT", since("status", "lastHeartbeatTime")),
        TableColumn("SOURCE", text("status", "source"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )
    made_from = "conditions"

    @override
    def places(self, key: str, record: Model) -> Iterable[tuple[str, str]]:
        from moorage_schemas.keys import ConditionKey

        yield "", object_names.about_target(*ConditionKey.parse(key))


class TimerKind(View):
    """A deadline that has not passed."""

    kind = "Timer"
    namespaced = False
    order = 2060
    columns = (
        TableColumn("TARGET", target("status", "target")),
        TableColumn("OWNER", text("status", "owner")),
        TableColumn("DUE", lambda found, now: until(at(found, "status", "deadline"), now) or NONE),
        TableColumn("DEADLINE", text("status", "deadline"), wide=True),
        TableColumn("SUBJECT", text("status", "subject"), wide=True),
    )
    made_from = "timers"

    @override
    def listed(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # The timers that are set, earliest first.
        waiting = [item for item in items if at(item, "status", "deadline")]
        return sorted(waiting, key=lambda item: (at(item, "status", "deadline"), at(item, "metadata", "name")))

    @override
    def places(self, key: str, record: Model) -> Iterable[tuple[str, str]]:
        yield "", key.replace("/", "~")


def _targets(found: Object) -> str:
    """Return the target, or the targets of a workload that can be on several."""
    several = at(found, "status", "targets") or []
    return ",".join(reference_text(one["target"]) for one in several) or reference_text(at(found, "status", "target"))


class WorkloadPlacementKind(View):
    """The decision on one workload with its grounds. A `Placement` is declared by people."""

    kind = "WorkloadPlacement"
    field_selectors = MappingProxyType({"status.state": ""})
    short_names = ("wp", "pl")
    namespaced = True
    order = 2070
    columns = (
        TableColumn("STATE", text("status", "state")),
        TableColumn("TARGET", of(_targets)),
        TableColumn("REASON", text("status", "reason")),
        TableColumn("AGE", since("status", "decidedTime")),
        TableColumn("OWNER", target("status", "owner"), wide=True),
        TableColumn("PREVIOUS", target("status", "previousTarget"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )
    made_from = "placements"

    @override
    def places(self, key: str, record: Model) -> Iterable[tuple[str, str]]:
        from moorage_schemas.keys import ResourceKey

        kind, namespace, name, _ = ResourceKey.parse(key)
        if kind != "PlacementDecision":  # it has a kind of its own
            yield namespace or DEFAULT_NAMESPACE, object_names.workload_name(kind, name)


def _due(found: Object, now: datetime) -> str:
    waits = at(found, "status", "state") in {None, "Scheduled", "Held"}
    return (until(at(found, "status", "deadline"), now) if waits else "") or NONE


def _held_by(found: Object) -> str:
    held = at(found, "status", "state") == "Held"
    return (",".join(at(found, "status", "heldBy") or []) or NONE) if held else NONE


def acknowledged(found: Object) -> str:
    """Return the acknowledgement of an eviction's deployer: `Waiting`, `Failed`, `Refused` or `Done`."""
    status = found.get("status") or {}
    if status.get("acknowledged"):
        return "Done"
    if status.get("state") != "Requested":
        return NONE
    return str(at(status, "escalated", "reason") or ("Waiting" if status.get("deployer") else NONE))


def _taints(found: Object) -> str:
    return ",".join(taint_text(taint) for taint in at(found, "status", "taints") or []) or NONE


class EvictionKind(PairView):
    """The eviction of a workload from a target."""

    kind = "Eviction"
    field_selectors = MappingProxyType({"status.state": ""})
    cli_names = ("evict",)
    order = 2040
    columns = (
        TableColumn("WORKLOAD", target("status", "workload")),
        TableColumn("TARGET", target("status", "target")),
        TableColumn("STATE", text("status", "state")),
        TableColumn("DUE", _due),
        TableColumn("HELD-BY", of(_held_by)),
        TableColumn("ACKNOWLEDGED", of(acknowledged)),
        TableColumn("AGE", since("status", "decidedTime")),
        TableColumn("TAINTS", of(_taints), wide=True),
        TableColumn("REASON", text("status", "reason"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
        TableColumn("DEPLOYER", text("status", "deployer"), wide=True),
    )
    made_from = "evictions"

    @override
    def view_annotations(self, key: str, records: Records) -> dict[str, str]:
        found = records.traces.get(key)
        return {TRACE_ANNOTATION: found} if found is not None else {}


def _origins(found: Object) -> str:
    if at(found, "status", "held"):
        return "held"
    return ",".join(at(found, "status", "origins") or []) or NONE


def _age(found: Object, now: datetime) -> str:
    return age(at(found, "status", "timeAdded") or at(found, "status", "since"), now)


class TaintKind(View):
    """One taint of a target."""

    kind = "Taint"
    namespaced = False
    order = 2050
    columns = (
        TableColumn("TARGET", target("status", "target")),
        TableColumn("TAINT", of(lambda found: taint_text(at(found, "status") or {}))),
        TableColumn("ORIGIN", of(_origins)),
        TableColumn("AGE", _age),
        TableColumn("REASON", text("status", "reason"), wide=True),
    )
    made_from = "taints"

    @override
    def view_status(self, object_id: ObjectId, key: str, records: Records) -> Document | None:
        tainted = records.taints.get(key)
        if tainted is None:
            return None
        whose = {"target": tainted.target.model_dump(mode="json"), "generation": tainted.generation}
        for taint in tainted.taints:
            if object_names.about_target(key, taint.effect, taint.key) == object_id.name:
                return {**whose, **taint.model_dump(mode="json"), "held": False}
        for waiting in tainted.held:
            if object_names.about_target(key, waiting.effect, waiting.key) == object_id.name:
                return {**whose, **waiting.model_dump(mode="json"), "held": True}
        return None

    @override
    def places(self, key: str, record: Model) -> Iterable[tuple[str, str]]:
        from moorage_schemas.taint import TargetTainted

        if isinstance(record, TargetTainted):
            for name, effect in (
                *(one.identity for one in record.taints),
                *((one.key, one.effect) for one in record.held),
            ):
                yield "", object_names.about_target(key, effect, name)


REPLAY: Final = "replay"
"""The subresource that sends the original again."""

_SOURCE: Final = "status.headers.ce_source"


def _source(found: Object) -> str:
    return str(at(found, "status", "headers", "ce_source") or NONE)


def _place(found: Object) -> str:
    topic, partition, offset = (at(found, "status", field) for field in ("topic", "partition", "offset"))
    return f"{topic}/{partition}@{offset}"


class DeadLetterKind(View):
    """A record that was refused, with the reason and the original."""

    kind = "DeadLetter"
    short_names = ("dl",)
    namespaced = False
    order = 2035
    watched = False
    made_from = "dead-letters"
    kept = False
    own_subresources = (REPLAY,)
    field_selectors = MappingProxyType(
        dict.fromkeys(("status.service", "status.reason", "status.topic", "status.key", "status.value", _SOURCE), "")
    )
    field_aliases = MappingProxyType(
        {
            "service": "status.service",
            "reason": "status.reason",
            "topic": "status.topic",
            "key": "status.key",
            "value": "status.value",
            "source": _SOURCE,
        }
    )
    columns = (
        TableColumn("SERVICE", text("status", "service")),
        TableColumn("REASON", text("status", "reason")),
        TableColumn("TOPIC", text("status", "topic")),
        TableColumn("KEY", text("status", "key")),
        TableColumn("SOURCE", of(_source)),
        AGE,
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        status = at(found, "status") or {}
        yield Pair("Service", status.get("service"))
        yield Pair("Refused", time_and_age(status.get("refusedTime"), now))
        yield Pair("Reason", status.get("reason"))
        yield Pair("Message", status.get("message"))
        original = {
            "record": _place(found),
            "key": status.get("key"),
            "size": status.get("originalSize"),
            "truncated": status.get("truncated"),
            "encoding": status.get("originalEncoding"),
            "headers": status.get("headers") or {},
            "value": status.get("original"),
        }
        yield Fields("Original", original)


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
        history = [
            [
                zone_state({"status": one}),
                time_and_age(one.get("since"), now),
                f"{one.get('notReady')}/{one.get('nodes')}",
            ]
            for one in status.get("history") or []
        ]
        yield Rows("History", ["STATE", "SINCE", "NOT READY"], history)
        granted = [[str(one.get("target")), time_and_age(one.get("since"), now)] for one in status.get("granted") or []]
        yield Rows("Granted", ["TARGET", "NOT READY SINCE"], granted)
        waiting = [[str(one.get("target")), time_and_age(one.get("since"), now)] for one in status.get("queue") or []]
        yield Rows(f"Waiting ({status.get('waiting', 0)})", ["TARGET", "NOT READY SINCE"], waiting)
        members = [
            [name_of(one), node_status(one), ",".join(taint_texts(at(one, "spec", "taints")))]
            for one in related.list("Node")
            if zone_name(one) == status.get("zone")
        ]
        yield Rows(f"Nodes of this zone ({len(members)})", ["NAME", "STATUS", "TAINTS"], members)

    def api_name(self, typed: str) -> str:
        """`eu.eu-1` for `eu/eu-1`, because a name in the API must not contain a slash."""
        return object_names.object_name(object_names.zone_of_object(typed))

    def shown_name(self, name: str) -> str:
        """`eu/eu-1` for `eu.eu-1`."""
        return object_names.shown_zone(object_names.zone_of_object(name))

    @override
    def view_status(self, object_id: ObjectId, key: str, records: Records) -> Document | None:
        # A rate without limit is the text `inf`, because JSON has no such number.
        status = super().view_status(object_id, key, records)
        if status is None:
            return None
        return {name: "inf" if name in _NUMBERS and value == "Infinity" else value for name, value in status.items()}

    @override
    def view_spec(self, key: str) -> Document:
        # The region and the zone.
        region, _, own = key.partition("/")
        return {"region": region, "zone": own}

    @override
    def places(self, key: str, record: Model) -> Iterable[tuple[str, str]]:
        yield "", object_names.object_name(key)


DEAD_LETTER, TAINT = DeadLetterKind(), TaintKind()
KINDS = (
    BindingKind(),
    BudgetKind(),
    ConditionKind(),
    DEAD_LETTER,
    EvictionKind(),
    TAINT,
    TimerKind(),
    WorkloadPlacementKind(),
    ZoneKind(),
)
