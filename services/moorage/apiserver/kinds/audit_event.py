"""`AuditEvent`: who has written what, and who was refused, from the records of `audit`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from types import MappingProxyType

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.sections import Fields, Pair, Related, Section, time_and_age
from moorage.decide.kubernetes.object_texts import audited_object, audited_outcome, audited_user
from moorage.decide.kubernetes.unstructured import at

_FIELDS = (
    "verb",
    "user.username",
    "impersonatedUser.username",
    "objectRef.resource",
    "objectRef.subresource",
    "objectRef.kind",
    "objectRef.namespace",
    "objectRef.name",
    "objectRef.cluster",
    "responseStatus.status",
    "responseStatus.reason",
)


class AuditEventKind(View):
    """A write or a refused request, with its user."""

    kind = "AuditEvent"
    model_module = "audit"
    namespaced = False
    order = 2090
    watched = False
    made_from = "audit"
    kept = False
    field_selectors = MappingProxyType(dict.fromkeys(_FIELDS, ""))
    field_aliases = MappingProxyType(
        {
            "user": "user.username",
            "resource": "objectRef.resource",
            "kind": "objectRef.kind",
            "namespace": "objectRef.namespace",
            "name": "objectRef.name",
            "cluster": "objectRef.cluster",
        }
    )
    columns = (
        TableColumn("USER", of(audited_user)),
        TableColumn("VERB", text("verb")),
        TableColumn("OBJECT", of(audited_object)),
        TableColumn("OUTCOME", of(audited_outcome)),
        AGE,
        TableColumn("AGENT", text("userAgent"), wide=True),
        TableColumn("COUNT", text("count"), wide=True),
        TableColumn("MESSAGE", text("responseStatus", "message"), wide=True),
    )

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield Pair("Time", time_and_age(found.get("requestReceivedTimestamp"), now))
        yield Pair("User", audited_user(found))
        yield Pair("Groups", ", ".join(at(found, "impersonatedUser", "groups") or at(found, "user", "groups") or ()))
        yield Pair("User Agent", found.get("userAgent"))
        yield Pair("Source IPs", ", ".join(found.get("sourceIPs") or ()))
        yield Pair("Verb", found.get("verb"))
        yield Pair("Object", audited_object(found))
        yield Pair("Outcome", audited_outcome(found))
        yield Pair("Message", at(found, "responseStatus", "message"))
        yield Pair("Count", found.get("count"))
        yield Fields("Object Reference", found.get("objectRef") or {})


KIND = AuditEventKind()
