"""Nodes, Karmada's clusters and OCM's: they carry taints, which the taint-manager writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, ResourceT
from moorage.apiserver.kinds.printing.columns import Object, condition_status, taint_text
from moorage.apiserver.kinds.printing.sections import OPEN, Related, Rows, Section, Values, evictions, time_and_age
from moorage.decide.kubernetes.unstructured import at, part

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.taint import Taint, TargetTainted

_DECIDED: Final = frozenset({"conditions", "heldTaints"})
"""Parts of a target's status that services determine."""


UNREPORTED: Final = "Unreported"
"""The status of a target whose condition `Ready` was never reported. Such a target counts as ready."""


def unreported(found: Object) -> str:
    """The meaning of a missing condition `Ready`. Empty if the target has the condition."""
    return "" if condition_status(found, "Ready") else ": no probe has reported Ready, so it counts as ready"


def tainted(found: Object, related: Related, now: datetime) -> Iterator[Section]:
    """The taints of a target with their origins, and those that are held."""
    who = {"kind": found.get("kind"), "name": at(found, "metadata", "name")}
    origins = {
        (one["status"]["key"], one["status"]["effect"]): one["status"]
        for one in related.list("Taint")
        if one["status"]["target"] == who and not one["status"].get("held")
    }
    rows = []
    for taint in at(found, "spec", "taints") or []:
        known = origins.get((taint.get("key"), taint.get("effect")), {})
        added = taint.get("timeAdded") or known.get("timeAdded") or ""
        origin = ",".join(known.get("origins") or []) or "being worked in"
        rows.append([taint_text(taint), origin, time_and_age(added, now), known.get("reason", "")])
    yield Rows("Taints", ["TAINT", "ORIGIN", "SINCE", "REASON"], rows)
    held = [
        [taint_text(one), time_and_age(one.get("since"), now), str(one.get("reason") or "")]
        for one in at(found, "status", "heldTaints") or []
    ]
    if held:
        yield Rows("Held taints", ["TAINT", "WANTED SINCE", "WAITS FOR"], held)


def offered(found: Object) -> Iterator[Section]:
    """The capacity of a target, and the part of it that workloads may use."""
    for field in ("capacity", "allocatable"):
        if amounts := at(found, "status", field):
            yield Values(field.title(), [f"{key}: {value}" for key, value in amounts.items()])


def leaving(found: Object, related: Related, now: datetime) -> Section:
    """The evictions from a target that are not over."""
    who = (found.get("kind"), at(found, "metadata", "name"))
    return evictions(
        [
            one
            for one in related.list("Eviction")
            if (at(one, "status", "target", "kind"), at(one, "status", "target", "name")) == who
            and one["status"]["state"] in OPEN
        ],
        now,
    )


class Target(Kind[ResourceT]):
    """A kind that carries taints.

    Its resources (`status.capacity`, `status.allocatable`) are declared. Its conditions are not.
    """

    status_declared: ClassVar[bool] = True
    mirrorable: ClassVar[bool] = True

    @override
    def declared(self, document: dict[str, Any]) -> dict[str, Any]:
        status = {k: v for k, v in (document.get("status") or {}).items() if k not in _DECIDED}
        found = {k: v for k, v in document.items() if k != "status"} | ({"status": status} if status else {})
        spec = {key: value for key, value in (found.get("spec") or {}).items() if key != "taints"}
        return {**found, "spec": spec}

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.targets import TargetIndex

        return (TargetIndex,)

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status import targets

        resource = records.resources.get(object_id.key)
        return targets.shown(resource, records) if resource is not None else None

    @override
    def taints(self, resource: ResourceDeclared, records: Records) -> TargetTainted | None:
        from moorage.apiserver.kinds.status import targets

        return targets.taints(resource, records)

    @override
    def spec_taints(self, resource: ResourceT) -> Sequence[Taint]:
        taints: Sequence[Taint] | None = getattr(resource, "spec").taints  # noqa: B009 - all of them have one
        return taints or ()

    def notes(self, document: Mapping[str, Any], sent: Mapping[str, Any], records: Records) -> Iterator[str]:
        """Yield the sent taints that were not applied, because they depend on the target's state."""
        from moorage.decide.taints.desired.from_conditions import belongs_to_state

        there = {
            (one["key"], one["effect"]): one.get("value") or "" for one in part(document, "spec").get("taints") or ()
        }
        for number, taint in enumerate(part(sent, "spec").get("taints") or ()):
            key, effect, value = taint.get("key") or "", taint.get("effect") or "", taint.get("value") or ""
            if belongs_to_state(document, key, effect, value) and there.get((key, effect)) != value:
                why = f"is determined by the state of the {self.kind}"
                yield f"spec.taints[{number}]: {key}:{effect} {why}, and was not applied"
