"""`auditevents` (moorage.io/v1alpha1): the records of `audit`, in the fields of Kubernetes' audit events.

The records have no bodies and headers of requests, so nothing of a Secret or a token is in them. Texts that clients
choose, such as the name of a program, are shown without what looks like a secret.
"""

from __future__ import annotations

from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.http.intake.topic_lists import Document, TopicListApi
from moorage.apiserver.kinds import audit_event
from moorage.apiserver.kinds.kind import Kind, called, named
from moorage.apiserver.storage.topic_pages import TopicRecord
from moorage.runtime.process.logs import redacted
from moorage_schemas.dead_letter import Audited
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resources.audit import AuditEvent
from moorage_schemas.times import format_time
from moorage_schemas.topics import AUDIT

COMMITTED: Final = "committed"
_REFUSALS: Final = {"unauthenticated": ("Unauthorized", 401), "forbidden": ("Forbidden", 403)}


class AuditEventsApi(TopicListApi[Audited]):
    """Answers requests about the audit."""

    topic = AUDIT

    @override
    def is_in(self, event: Audited, cluster: str) -> bool:
        return event.outcome == COMMITTED and ResourceKey.parse(event.resource).cluster == cluster

    @override
    def document(self, record: TopicRecord, event: Audited) -> Document:
        verb, _, subresource = event.verb.partition("/")
        shown: Document = {
            "apiVersion": audit_event.KIND.api_versions[0],
            "kind": audit_event.KIND.kind,
            "metadata": {
                "name": str(record.name),
                "creationTimestamp": format_time(event.time.replace(microsecond=0)),
            },
            "level": _default("level"),
            "stage": _default("stage"),
            "verb": verb,
            "user": _user(event.sender, []) if event.sender else _user(event.user, event.groups),
            "responseStatus": _response(event),
            "requestReceivedTimestamp": format_time(event.time),
            "count": event.count,
        }
        if event.sender:
            shown["impersonatedUser"] = _user(event.user, event.groups)
        if event.address:
            shown["sourceIPs"] = [event.address]
        if event.outcome == COMMITTED:
            shown["userAgent"] = redacted(event.actor)
            shown["objectRef"] = _written(event, subresource)
        elif event.resource.startswith("/"):
            shown["requestURI"] = redacted(event.resource)
        else:
            shown["objectRef"] = _requested(event.resource)
        return shown


def _default(field: str) -> Any:
    return AuditEvent.model_fields[field].default


def _user(name: str, groups: list[str]) -> Document:
    return {"username": name, **({"groups": groups} if groups else {})}


def _response(event: Audited) -> Document:
    if event.outcome not in _REFUSALS:
        return {"status": "Success"}
    reason, code = _REFUSALS[event.outcome]
    return {"status": "Failure", "code": code, "reason": reason, "message": redacted(event.reason)}


def _written(event: Audited, subresource: str) -> Document:
    """Return the object of a write, which the key of its record names."""
    key = ResourceKey.parse(event.resource)
    parts = {**_of_kind(named(key.kind), key.kind), "subresource": subresource, **key._asdict(), "uid": event.uid}
    return {name: value for name, value in parts.items() if value}


def _requested(text: str) -> Document:
    """Return the object of a refused request: `pods/eviction shop/web`."""
    what, _, place = text.partition(" ")
    typed, _, subresource = what.partition("/")
    resource, _, group = typed.partition(".")
    found = called(resource)
    kind = found if found is not None and (found.plural, found.group) == (resource, group) else None
    namespace, slash, name = place.partition("/")
    if not slash and (kind is None or not kind.namespaced):
        namespace, name = "", place
    parts = {**_of_kind(kind, resource), "subresource": subresource, "namespace": namespace, "name": name}
    if kind is None:
        parts |= {"resource": resource, "apiGroup": group, "kind": ""}
    return {name: value for name, value in parts.items() if value}


def _of_kind(kind: Kind[Any] | None, called_here: str) -> dict[str, str]:
    """Return the names of a kind. One that is not served has the name that the record has."""
    if kind is None:
        return {"resource": called_here.lower(), "kind": called_here}
    return {
        "resource": kind.plural,
        "kind": kind.kind,
        "apiGroup": kind.group,
        "apiVersion": kind.versions[0],
    }
